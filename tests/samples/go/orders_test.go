package orders

import (
	"context"
	"strings"
	"testing"
	"time"

	testkit "github.com/logbus/logbus/testkit/go"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestOrderArrives(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	server := testkit.Run(t, testkit.Options{Settings: map[string]string{"auto.create.topics.enable": "false"}})
	if err := server.CreateTopic(ctx, testkit.Topic{Name: "orders", Partitions: 3}); err != nil {
		t.Fatal(err)
	}

	producer, err := kgo.NewClient(kgo.SeedBrokers(server.Bootstrap...))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	record := &kgo.Record{Topic: "orders", Key: []byte("42"), Value: []byte("two of those")}
	if err := producer.ProduceSync(ctx, record).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if got := first(ctx, t, server); got != "two of those" {
		t.Fatalf("read %q", got)
	}

	// The broker is away for a moment: the client waits, and goes on.
	if err := server.RestartBroker(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if err := producer.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("another")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func TestEmptyAfterReset(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	server := testkit.Run(t, testkit.Options{})
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

func TestProducerTriesAgain(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	server := testkit.Run(t, testkit.Options{Brokers: 3})
	if err := server.CreateTopic(ctx, testkit.Topic{Name: "orders", Partitions: 1, ReplicationFactor: 3}); err != nil {
		t.Fatal(err)
	}
	fault, err := server.AddFault(ctx, testkit.Fault{Action: "fail", API: "Produce", Error: "NOT_ENOUGH_REPLICAS", Times: 1})
	if err != nil {
		t.Fatal(err)
	}
	producer, err := kgo.NewClient(kgo.SeedBrokers(server.Bootstrap...))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	if err := producer.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("late")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if hits, err := server.FaultHits(ctx, fault, 1, 60); err != nil || hits != 1 {
		t.Fatal(hits, err)
	}
	if err := server.KillBroker(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if got := first(ctx, t, server); got != "late" {
		t.Fatalf("read %q", got)
	}
}

func TestWrongSetting(t *testing.T) {
	_, err := testkit.Start(context.Background(), testkit.Options{Settings: map[string]string{"num.partitions": "none"}})
	if err == nil || !strings.Contains(err.Error(), "num.partitions: 'none'") {
		t.Fatal(err)
	}
}

func first(ctx context.Context, t *testing.T, server *testkit.Server) string {
	consumer, err := kgo.NewClient(
		kgo.SeedBrokers(server.Bootstrap...),
		kgo.ConsumeTopics("orders"),
		kgo.ConsumerGroup("kitchen"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	fetches := consumer.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		t.Fatal(err)
	}
	return string(fetches.Records()[0].Value)
}
