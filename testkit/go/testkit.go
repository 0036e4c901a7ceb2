// Package testkit runs logbus, a Kafka-compatible broker, for tests in Go.
//
//	func TestOrders(t *testing.T) {
//		server := testkit.Run(t, testkit.Options{})
//		server.CreateTopic(ctx, testkit.Topic{Name: "orders", Partitions: 3})
//		client, err := kgo.NewClient(kgo.SeedBrokers(server.Bootstrap...))
//		...
//	}
//
// The command "logbus" must be on PATH; LOGBUS_COMMAND names another, with its arguments separated by blanks.
package testkit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options of a server. The zero value is a single broker with the settings of a test broker.
type Options struct {
	// Brokers is how many there are; more than one are a cluster.
	Brokers int
	// Settings by Kafka's names, such as "num.partitions".
	Settings map[string]string
	// AsVersion is a release of Kafka, such as "2.8", whose API versions the brokers have; empty is the newest.
	AsVersion string
	// OwnProcess runs each broker as a process of its own, which Kill and Freeze need.
	OwnProcess bool
	// StartTimeout bounds the start; 0 is two minutes.
	StartTimeout time.Duration
}

// Topic is a topic to create. Zero numbers are the broker's defaults.
type Topic struct {
	Name              string            `json:"name"`
	Partitions        int               `json:"partitions,omitempty"`
	ReplicationFactor int               `json:"replication_factor,omitempty"`
	Configs           map[string]string `json:"configs,omitempty"`
}

// Server is a running test server. Its methods may be called from several goroutines.
type Server struct {
	// Bootstrap has HOST:PORT of each broker.
	Bootstrap []string
	// AdminURL is the HTTP address of the first broker.
	AdminURL string
	// RegistryURL is the address of its schema registry.
	RegistryURL string

	controlURL string
	token      string
	command    *exec.Cmd
	stdin      io.Closer
	directory  string
	stderr     *tail
	done       chan struct{}
	stop       sync.Once
}

// TB is what Run needs of a *testing.T or *testing.B.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// Run starts a server that is stopped when the test has ended. The test fails if it does not start.
func Run(t TB, options Options) *Server {
	t.Helper()
	server, err := Start(context.Background(), options)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Errorf("%v", err)
		}
	})
	return server
}

// Start starts a server and waits until it serves clients. Stop ends it; it also ends with this process.
func Start(ctx context.Context, options Options) (*Server, error) {
	timeout := options.StartTimeout
	if timeout == 0 {
		timeout = 2 * time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	directory, err := os.MkdirTemp("", "logbus-testkit-")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(directory, "server.json")
	words := strings.Fields(os.Getenv("LOGBUS_COMMAND"))
	if len(words) == 0 {
		words = []string{"logbus"}
	}
	arguments := append(words[1:len(words):len(words)], "test-server", "--port-file", file)
	if options.Brokers > 0 {
		arguments = append(arguments, "--brokers", strconv.Itoa(options.Brokers))
	}
	if options.AsVersion != "" {
		arguments = append(arguments, "--as-version", options.AsVersion)
	}
	if options.OwnProcess {
		arguments = append(arguments, "--own-process")
	}
	names := make([]string, 0, len(options.Settings))
	for name := range options.Settings {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		arguments = append(arguments, "--set", name+"="+options.Settings[name])
	}
	server := &Server{
		command:   exec.Command(words[0], arguments...),
		directory: directory,
		stderr:    &tail{},
		done:      make(chan struct{}),
	}
	server.command.Stderr = server.stderr
	// The server ends when this pipe does: with Stop, and with this process, however it ends.
	if server.stdin, err = server.command.StdinPipe(); err != nil {
		os.RemoveAll(directory)
		return nil, err
	}
	if err := server.command.Start(); err != nil {
		os.RemoveAll(directory)
		return nil, fmt.Errorf("logbus test server: %w; install logbus, or set LOGBUS_COMMAND", err)
	}
	go func() {
		server.command.Wait()
		close(server.done)
	}()
	if err := server.awaitReady(ctx, file); err != nil {
		server.Stop()
		return nil, err
	}
	return server, nil
}

func (s *Server) awaitReady(ctx context.Context, file string) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		data, err := os.ReadFile(file)
		if err == nil {
			return s.read(data)
		}
		select {
		case <-s.done:
			if data, err := os.ReadFile(file); err == nil {
				return s.read(data)
			}
			return fmt.Errorf("logbus test server ended: %s", s.stderr)
		case <-ctx.Done():
			return fmt.Errorf("logbus test server did not start in time: %w; %s", ctx.Err(), s.stderr)
		case <-tick.C:
		}
	}
}

func (s *Server) read(data []byte) error {
	var told struct {
		Bootstrap   string `json:"bootstrap"`
		AdminURL    string `json:"admin_url"`
		RegistryURL string `json:"registry_url"`
		ControlURL  string `json:"control_url"`
		Token       string `json:"token"`
		Error       string `json:"error"`
	}
	if err := json.Unmarshal(data, &told); err != nil {
		return fmt.Errorf("logbus test server: its port file: %w", err)
	}
	if told.Error != "" {
		return fmt.Errorf("logbus test server: %s", told.Error)
	}
	s.Bootstrap = strings.Split(told.Bootstrap, ",")
	s.AdminURL, s.RegistryURL = told.AdminURL, told.RegistryURL
	s.controlURL, s.token = told.ControlURL, told.Token
	return nil
}

// Stop ends the server and waits until nothing of it is left. Further calls do nothing.
func (s *Server) Stop() error {
	var failed error
	s.stop.Do(func() {
		s.stdin.Close()
		select {
		case <-s.done:
		case <-time.After(time.Minute):
			s.command.Process.Kill()
			<-s.done
			failed = errors.New("logbus test server did not stop within a minute, and was killed")
		}
		os.RemoveAll(s.directory)
	})
	return failed
}

// Reset has all brokers begin anew, empty, without faults and on the same addresses.
func (s *Server) Reset(ctx context.Context) error {
	return s.Control(ctx, http.MethodPost, "/server/reset", nil, nil)
}

// CreateTopic creates a topic.
func (s *Server) CreateTopic(ctx context.Context, topic Topic) error {
	return s.Control(ctx, http.MethodPost, "/topics", topic, nil)
}

// DeleteTopic deletes a topic.
func (s *Server) DeleteTopic(ctx context.Context, name string) error {
	return s.Control(ctx, http.MethodDelete, "/topics/"+name, nil, nil)
}

// Fault is something that happens to the next requests of clients. Zero members are left out.
type Fault struct {
	// Action is fail, delay, drop, disconnect, corrupt or throttle.
	Action string `json:"action"`
	// API is Kafka's name, such as Produce; all if it is empty.
	API       string `json:"api,omitempty"`
	ClientID  string `json:"client_id,omitempty"`
	Topic     string `json:"topic,omitempty"`
	Partition *int   `json:"partition,omitempty"`
	// Times is how many requests it happens to; 0 is all of them.
	Times int `json:"times,omitempty"`
	// Skip is how many requests are let through before.
	Skip int `json:"skip,omitempty"`
	// After has the request carried out first, so that only its answer is lost, late or wrong.
	After bool `json:"after,omitempty"`
	// Error is Kafka's name of the error, of fail.
	Error          string  `json:"error,omitempty"`
	Message        string  `json:"message,omitempty"`
	Seconds        float64 `json:"seconds,omitempty"`
	How            string  `json:"how,omitempty"`
	BytesPerSecond float64 `json:"bytes_per_second,omitempty"`
}

// AddFault puts a fault in force, and returns its number.
func (s *Server) AddFault(ctx context.Context, fault Fault) (int, error) {
	var answer struct {
		ID int `json:"id"`
	}
	err := s.Control(ctx, http.MethodPost, "/faults", fault, &answer)
	return answer.ID, err
}

// FaultHits tells how often a fault has happened, once that is hits times, or after so many whole seconds.
func (s *Server) FaultHits(ctx context.Context, fault, hits, seconds int) (int, error) {
	var answer struct {
		Hits int `json:"hits"`
	}
	path := fmt.Sprintf("/faults/%d?hits=%d&timeout=%d", fault, hits, seconds)
	err := s.Control(ctx, http.MethodGet, path, nil, &answer)
	return answer.Hits, err
}

// ClearFaults removes all faults.
func (s *Server) ClearFaults(ctx context.Context) error {
	return s.Control(ctx, http.MethodDelete, "/faults", nil, nil)
}

// StopBroker stops a broker in order.
func (s *Server) StopBroker(ctx context.Context, id int) error { return s.broker(ctx, id, "stop") }

// StartBroker starts a broker that does not run, on its address and data.
func (s *Server) StartBroker(ctx context.Context, id int) error { return s.broker(ctx, id, "start") }

// RestartBroker stops a broker in order, and starts it.
func (s *Server) RestartBroker(ctx context.Context, id int) error {
	return s.broker(ctx, id, "restart")
}

// KillBroker ends a broker as a crash does: one of a cluster, or with OwnProcess.
func (s *Server) KillBroker(ctx context.Context, id int) error { return s.broker(ctx, id, "kill") }

// FreezeBroker has a broker do nothing, with its connections open. It needs OwnProcess.
func (s *Server) FreezeBroker(ctx context.Context, id int) error { return s.broker(ctx, id, "freeze") }

// ThawBroker ends a freeze.
func (s *Server) ThawBroker(ctx context.Context, id int) error { return s.broker(ctx, id, "thaw") }

// CutOff lets nothing through between a broker of a cluster and others: numbers, or "store", the metadata store.
// Without others, between it and all of them. Clients still reach it, and Reconnect ends it.
func (s *Server) CutOff(ctx context.Context, id int, others ...any) error {
	return s.CutOffWay(ctx, id, Both, others...)
}

// Way is the direction of a cut, as seen by the broker that is cut off.
type Way string

const (
	// Both directions: connections are closed.
	Both Way = "both"
	// From it: nothing that it says arrives. Connections stay open, and hold it.
	From Way = "from"
	// To it: it hears nothing.
	To Way = "to"
)

// CutOffWay is CutOff in one direction. One way, brokers can be cut off, and not the metadata store.
func (s *Server) CutOffWay(ctx context.Context, id int, way Way, others ...any) error {
	body := map[string]any{"way": way}
	if len(others) > 0 {
		body["others"] = others
	}
	return s.Control(ctx, http.MethodPost, fmt.Sprintf("/brokers/%d/cut-off", id), body, nil)
}

// Reconnect ends all cuts of a broker.
func (s *Server) Reconnect(ctx context.Context, id int) error { return s.broker(ctx, id, "reconnect") }

// ExpireSession has the metadata store end the session of a broker of a cluster.
func (s *Server) ExpireSession(ctx context.Context, id int) error {
	return s.broker(ctx, id, "expire-session")
}

// MoveLeader has a broker with a replica lead a partition.
func (s *Server) MoveLeader(ctx context.Context, topic string, partition, to int) error {
	path := fmt.Sprintf("/topics/%s/partitions/%d/move-leader", topic, partition)
	return s.Control(ctx, http.MethodPost, path, map[string]int{"to": to}, nil)
}

// HangTransaction leaves a transaction open, with a record in a partition, and returns its transactional id.
func (s *Server) HangTransaction(ctx context.Context, topic string, partition int) (string, error) {
	var answer struct {
		ID string `json:"transactional_id"`
	}
	body := map[string]any{"topic": topic, "partition": partition}
	err := s.Control(ctx, http.MethodPost, "/transactions", body, &answer)
	return answer.ID, err
}

// ForceRebalance has all members of a group of the classic protocol join again.
func (s *Server) ForceRebalance(ctx context.Context, group string) error {
	return s.Control(ctx, http.MethodPost, "/groups/"+url.PathEscape(group)+"/rebalance", nil, nil)
}

// FenceProducer aborts the transaction of an id, and fences its producer: what that does next fails.
func (s *Server) FenceProducer(ctx context.Context, transactionalID string) error {
	return s.Control(ctx, http.MethodPost, "/producers/"+url.PathEscape(transactionalID)+"/fence", nil, nil)
}

// Advance lets time pass for the brokers, without waiting.
func (s *Server) Advance(ctx context.Context, by time.Duration) error {
	return s.Control(ctx, http.MethodPost, "/time/advance", map[string]float64{"seconds": by.Seconds()}, nil)
}

func (s *Server) broker(ctx context.Context, id int, change string) error {
	return s.Control(ctx, http.MethodPost, fmt.Sprintf("/brokers/%d/%s", id, change), nil, nil)
}

// Control sends a request to the server's control interface: whatever has no method here.
// The body is sent as JSON, and the answer read from JSON, unless they are nil.
func (s *Server) Control(ctx context.Context, method, path string, body, answer any) error {
	select {
	case <-s.done:
		return fmt.Errorf("logbus test server: %s %s: the server has ended; start another one", method, path)
	default:
	}
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, s.controlURL+path, content)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		var problem struct {
			Detail string `json:"detail"`
		}
		json.Unmarshal(data, &problem)
		return fmt.Errorf("logbus test server: %s %s: %d: %s", method, path, response.StatusCode, problem.Detail)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(data, answer)
}

// tail keeps the end of what is written to it.
type tail struct {
	lock sync.Mutex
	text []byte
}

func (t *tail) Write(data []byte) (int, error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.text = append(t.text, data...)
	if over := len(t.text) - 4096; over > 0 {
		t.text = t.text[over:]
	}
	return len(data), nil
}

func (t *tail) String() string {
	t.lock.Lock()
	defer t.lock.Unlock()
	return strings.TrimSpace(string(t.text))
}
