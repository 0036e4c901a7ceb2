package example;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Takes orders over HTTP, writes them to a topic, and counts what has been ordered everywhere. */
public final class Shop implements AutoCloseable {
    private final Map<String, Integer> counts = new ConcurrentSkipListMap<>();
    private final KafkaProducer<String, String> producer;
    private final KafkaConsumer<String, String> consumer;
    private final HttpServer web;
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final Thread counting = new Thread(this::count, "counting");

    public Shop(String bootstrap, int port) throws IOException {
        producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", bootstrap, "acks", "all"), new StringSerializer(), new StringSerializer());
        consumer = new KafkaConsumer<>(
                Map.of(
                        "bootstrap.servers", bootstrap,
                        "group.id", "counting",
                        "auto.offset.reset", "earliest",
                        "enable.auto.commit", false),
                new StringDeserializer(),
                new StringDeserializer());
        web = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        web.setExecutor(threads);
        web.createContext("/orders/", this::order);
        web.createContext("/counts", exchange -> reply(exchange, 200, json()));
        web.start();
        counting.start();
    }

    /** Its port, if it was made with port 0. */
    public int port() {
        return web.getAddress().getPort();
    }

    /** The number of orders counted. */
    public synchronized int awaitCounted(int orders, Duration timeout) throws InterruptedException {
        long deadline = System.nanoTime() + timeout.toNanos();
        while (total() < orders && System.nanoTime() < deadline) {
            wait(Math.max(1, (deadline - System.nanoTime()) / 1_000_000));
        }
        return total();
    }

    @Override
    public void close() throws InterruptedException {
        web.stop(0);
        threads.shutdown();
        consumer.wakeup();
        counting.join();
        producer.close();
    }

    private void count() {
        try (consumer) {
            consumer.subscribe(List.of("orders"));
            while (true) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofSeconds(10));
                synchronized (this) {
                    for (ConsumerRecord<String, String> record : records) {
                        counts.merge(record.value(), 1, Integer::sum);
                    }
                    notifyAll();
                }
                consumer.commitSync();
            }
        } catch (WakeupException e) {
            // close() was called.
        }
    }

    private void order(HttpExchange exchange) throws IOException {
        String item = exchange.getRequestURI().getPath().substring("/orders/".length());
        if (!exchange.getRequestMethod().equals("POST") || item.isEmpty()) {
            reply(exchange, 404, "{}");
            return;
        }
        try {
            RecordMetadata place = producer.send(new ProducerRecord<>("orders", item, item)).get();
            reply(exchange, 201, String.format("{\"partition\": %d, \"offset\": %d}", place.partition(), place.offset()));
        } catch (Exception e) {
            reply(exchange, 503, "{}");
        }
    }

    private int total() {
        return counts.values().stream().mapToInt(Integer::intValue).sum();
    }

    private String json() {
        return counts.entrySet().stream()
                .map(each -> String.format("\"%s\": %d", each.getKey(), each.getValue()))
                .collect(Collectors.joining(", ", "{", "}"));
    }

    private static void reply(HttpExchange exchange, int status, String json) throws IOException {
        byte[] body = json.getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", "application/json");
        exchange.sendResponseHeaders(status, body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }

    public static void main(String[] arguments) throws IOException {
        Map<String, String> variables = System.getenv();
        int port = Integer.parseInt(variables.getOrDefault("PORT", "8000"));
        Shop shop = new Shop(variables.getOrDefault("KAFKA", "127.0.0.1:9092"), port);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                shop.close();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
    }
}
