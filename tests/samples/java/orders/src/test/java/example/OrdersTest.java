package example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.logbus.testkit.LogbusExtension;
import dev.logbus.testkit.LogbusServer;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class OrdersTest {
    private static final int SECONDS = 60;

    @RegisterExtension
    static final LogbusExtension LOGBUS =
            new LogbusExtension(new LogbusServer.Options().set("auto.create.topics.enable", false));

    @Test
    void orderArrives(LogbusServer server) throws Exception {
        server.createTopic("orders", 3, 1);
        send(server, "two of those");
        assertEquals("two of those", first(server));
    }

    @Test
    void producerTriesAgain(LogbusServer server) throws Exception {
        // It would exist already, were the broker not empty again.
        server.createTopic("orders", 1, 1);
        int fault = server.addFault(
                Map.of("action", "fail", "api", "Produce", "error", "NOT_ENOUGH_REPLICAS", "times", 1));
        send(server, "late");
        assertEquals(1, server.faultHits(fault, 1, Duration.ofSeconds(SECONDS)));
        assertEquals("late", first(server));
    }

    @Test
    void wrongSettingIsTold() {
        IllegalStateException error = assertThrows(
                IllegalStateException.class,
                () -> LogbusServer.start(new LogbusServer.Options().set("num.partitions", "none")));
        assertTrue(error.getMessage().contains("num.partitions: 'none'"), error.getMessage());
    }

    private static void send(LogbusServer server, String value) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", server.bootstrap(), "acks", "all");
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>("orders", "42", value)).get(SECONDS, TimeUnit.SECONDS);
        }
    }

    private static String first(LogbusServer server) {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", server.bootstrap(), "group.id", "kitchen", "auto.offset.reset", "earliest");
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("orders"));
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS);
            while (System.nanoTime() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    return record.value();
                }
            }
            throw new AssertionError("no order came");
        }
    }
}
