// Command shop serves on port 8000.
package main

import (
	"context"
	"log"
	"net/http"
	"os"

	"example.org/shop"
)

func main() {
	broker := os.Getenv("KAFKA")
	if broker == "" {
		broker = "127.0.0.1:9092"
	}
	shop, err := shop.New(broker)
	if err != nil {
		log.Fatal(err)
	}
	go shop.Count(context.Background())
	log.Fatal(http.ListenAndServe("127.0.0.1:8000", shop))
}
