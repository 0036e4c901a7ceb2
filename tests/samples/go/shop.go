// Package shop takes orders over HTTP, writes them to a topic, and counts what has been ordered everywhere.
package shop

import (
	"context"
	"encoding/json"
	"log"
	"net/http"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

type order struct {
	Item string `json:"item"`
}

// Shop is an http.Handler of POST /orders/ITEM and GET /counts.
type Shop struct {
	client  *kgo.Client
	mutex   sync.Mutex
	counts  map[string]int
	counted func()
}

// New makes a shop of the cluster at these addresses. Close ends it.
func New(brokers ...string) (*Shop, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...),
		kgo.ConsumeTopics("orders"),
		kgo.ConsumerGroup("counting"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
	)
	if err != nil {
		return nil, err
	}
	return &Shop{client: client, counts: map[string]int{}, counted: func() {}}, nil
}

// Close leaves the group and hangs up.
func (s *Shop) Close() { s.client.Close() }

// Count counts orders until the shop is closed.
func (s *Shop) Count(ctx context.Context) {
	for {
		fetches := s.client.PollFetches(ctx)
		if fetches.IsClientClosed() || ctx.Err() != nil {
			return
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			log.Printf("%s-%d: %v", topic, partition, err)
		})
		fetches.EachRecord(s.count)
		if err := s.client.CommitUncommittedOffsets(ctx); err != nil {
			log.Printf("orders may be counted twice: %v", err)
		}
		s.counted()
	}
}

func (s *Shop) count(record *kgo.Record) {
	var order order
	if err := json.Unmarshal(record.Value, &order); err != nil {
		log.Printf("offset %d: %v", record.Offset, err)
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.counts[order.Item]++
}

func (s *Shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	item, isOrder := strings.CutPrefix(r.URL.Path, "/orders/")
	switch {
	case r.Method == http.MethodPost && isOrder && item != "":
		value, _ := json.Marshal(order{item})
		record := &kgo.Record{Topic: "orders", Key: []byte(item), Value: value}
		if err := s.client.ProduceSync(r.Context(), record).FirstErr(); err != nil {
			reply(w, http.StatusServiceUnavailable, map[string]string{"error": err.Error()})
			return
		}
		reply(w, http.StatusCreated, map[string]int64{"partition": int64(record.Partition), "offset": record.Offset})
	case r.Method == http.MethodGet && r.URL.Path == "/counts":
		s.mutex.Lock()
		defer s.mutex.Unlock()
		reply(w, http.StatusOK, s.counts)
	default:
		http.NotFound(w, r)
	}
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}
