// Command shop takes orders until it is told to stop.
package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"example.org/shop"
)

func main() {
	stopping, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	shop, err := shop.New(variable("KAFKA", "127.0.0.1:9092"))
	if err != nil {
		log.Fatal(err)
	}
	defer shop.Close()
	go shop.Count(context.Background())
	web := &http.Server{Addr: "127.0.0.1:" + variable("PORT", "8000"), Handler: shop}
	go func() {
		<-stopping.Done()
		web.Shutdown(context.Background())
	}()
	if err := web.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}

func variable(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}
