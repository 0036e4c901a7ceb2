package shop

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	testkit "github.com/logbus/logbus/testkit/go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// open starts a shop on a topic of three partitions, and its web server.
func open(ctx context.Context, t *testing.T, server *testkit.Server) (*Shop, string) {
	topic := testkit.Topic{Name: "orders", Partitions: 3, ReplicationFactor: len(server.Bootstrap)}
	if err := server.CreateTopic(ctx, topic); err != nil {
		t.Fatal(err)
	}
	shop, err := New(server.Bootstrap...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(shop.Close)
	web := httptest.NewServer(shop)
	t.Cleanup(web.Close)
	return shop, web.URL
}

func minutes(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// place orders an item; the offset of the order.
func place(t *testing.T, url, item string) int64 {
	response, err := http.Post(url+"/orders/"+item, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var placed struct{ Offset int64 }
	if err := json.NewDecoder(response.Body).Decode(&placed); err != nil || response.StatusCode != http.StatusCreated {
		t.Fatal(response.Status, err)
	}
	return placed.Offset
}

// counts gets what is counted, once that are so many orders.
func counts(ctx context.Context, t *testing.T, shop *Shop, url string, orders int) map[string]int {
	counting, cancel := context.WithCancel(ctx)
	defer cancel()
	shop.counted = func() {
		shop.mutex.Lock()
		defer shop.mutex.Unlock()
		sum := 0
		for _, count := range shop.counts {
			sum += count
		}
		if sum >= orders {
			cancel()
		}
	}
	shop.Count(counting)
	response, err := http.Get(url + "/counts")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var found map[string]int
	if err := json.NewDecoder(response.Body).Decode(&found); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestOrdersAreCounted(t *testing.T) {
	ctx := minutes(t)
	server := testkit.Run(t, testkit.Options{Settings: map[string]string{"auto.create.topics.enable": "false"}})
	shop, url := open(ctx, t, server)
	for _, item := range []string{"tea", "cake"} {
		place(t, url, item)
	}
	// The broker is away for a moment: the order waits until it is back.
	if err := server.RestartBroker(ctx, 0); err != nil {
		t.Fatal(err)
	}
	place(t, url, "tea")
	if found := counts(ctx, t, shop, url, 3); !reflect.DeepEqual(found, map[string]int{"tea": 2, "cake": 1}) {
		t.Fatal(found)
	}
}

func TestEmptyAfterReset(t *testing.T) {
	ctx := minutes(t)
	server := testkit.Run(t, testkit.Options{AsVersion: "2.8"})
	for range [3]int{} {
		// It would exist already, were the broker not a new one.
		if err := server.CreateTopic(ctx, testkit.Topic{Name: "orders"}); err != nil {
			t.Fatal(err)
		}
		if err := server.Reset(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := server.KillBroker(ctx, 0); err == nil {
		t.Fatal("a broker in the server's process cannot be killed")
	}
}

func TestOrderSurvivesBroker(t *testing.T) {
	ctx := minutes(t)
	server := testkit.Run(t, testkit.Options{Brokers: 3})
	shop, url := open(ctx, t, server)
	fault, err := server.AddFault(ctx, testkit.Fault{Action: "fail", API: "Produce", Error: "NOT_ENOUGH_REPLICAS", Times: 1})
	if err != nil {
		t.Fatal(err)
	}
	// The first attempt fails, and the client makes another.
	if offset := place(t, url, "tea"); offset != 0 {
		t.Fatal(offset)
	}
	if hits, err := server.FaultHits(ctx, fault, 1, 60); err != nil || hits != 1 {
		t.Fatal(hits, err)
	}
	// Broker 2 hears nothing of the others for a moment, and comes back.
	if err := server.CutOffWay(ctx, 2, testkit.To, 0, 1); err != nil {
		t.Fatal(err)
	}
	if err := server.CutOffWay(ctx, 2, testkit.Way("out"), 0, 1); err == nil {
		t.Fatal("there is no such way")
	}
	if err := server.Reconnect(ctx, 2); err != nil {
		t.Fatal(err)
	}
	if err := server.KillBroker(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if found := counts(ctx, t, shop, url, 1); found["tea"] != 1 {
		t.Fatal(found)
	}
}

func TestGroupBeginsAnew(t *testing.T) {
	ctx := minutes(t)
	server := testkit.Run(t, testkit.Options{})
	shop, url := open(ctx, t, server)
	place(t, url, "tea")
	counts(ctx, t, shop, url, 1)
	if err := server.ForceRebalance(ctx, "counting"); err != nil {
		t.Fatal(err)
	}
	// The member joins again, and nothing is counted twice.
	place(t, url, "tea")
	if found := counts(ctx, t, shop, url, 2); found["tea"] != 2 {
		t.Fatal(found)
	}
	if err := server.ForceRebalance(ctx, "no such group"); err == nil {
		t.Fatal("there is no such group")
	}
}

func TestProducerIsFenced(t *testing.T) {
	ctx := minutes(t)
	server := testkit.Run(t, testkit.Options{})
	open(ctx, t, server)
	client, err := kgo.NewClient(kgo.SeedBrokers(server.Bootstrap...), kgo.TransactionalID("till 1"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	record := &kgo.Record{Topic: "orders", Value: []byte("{\"item\": \"tea\"}")}
	if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := server.FenceProducer(ctx, "till 1"); err != nil {
		t.Fatal(err)
	}
	if err := client.EndTransaction(ctx, kgo.TryCommit); err == nil {
		t.Fatal("a fenced producer has committed")
	}
}

func TestStoppedServer(t *testing.T) {
	server, err := testkit.Start(minutes(t), testkit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := server.ClearFaults(minutes(t)); err == nil || !strings.Contains(err.Error(), "the server has ended") {
		t.Fatal(err)
	}
}

func TestWrongSetting(t *testing.T) {
	_, err := testkit.Start(context.Background(), testkit.Options{Settings: map[string]string{"num.partitions": "none"}})
	if err == nil || !strings.Contains(err.Error(), "num.partitions: 'none'") {
		t.Fatal(err)
	}
}
