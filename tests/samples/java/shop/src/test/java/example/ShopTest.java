package example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.logbus.testkit.LogbusExtension;
import dev.logbus.testkit.LogbusServer;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class ShopTest {
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    @RegisterExtension
    static final LogbusExtension LOGBUS =
            new LogbusExtension(new LogbusServer.Options().set("auto.create.topics.enable", false));

    @Test
    void ordersAreCounted(LogbusServer server) throws Exception {
        server.createTopic("orders", 3, 1);
        try (Shop shop = new Shop(server.bootstrap(), 0)) {
            for (String item : List.of("tea", "cake", "tea")) {
                assertEquals(201, order(shop, item).statusCode());
            }
            assertEquals(3, shop.awaitCounted(3, PATIENCE));
            assertEquals("{\"cake\": 1, \"tea\": 2}", request(shop, "/counts", "GET").body());
        }
    }

    @Test
    void orderIsWrittenOnce(LogbusServer server) throws Exception {
        // It would exist already, were the broker not empty again.
        server.createTopic("orders", 1, 1);
        try (Shop shop = new Shop(server.bootstrap(), 0)) {
            // The broker writes the order, and its answer is lost: the producer sends it again.
            int fault = server.addFault(Map.of("action", "disconnect", "api", "Produce", "times", 1, "after", true));
            assertEquals("{\"partition\": 0, \"offset\": 0}", order(shop, "tea").body());
            assertEquals(1, server.faultHits(fault, 1, PATIENCE));
            assertEquals("{\"partition\": 0, \"offset\": 1}", order(shop, "tea").body());
            assertEquals(2, shop.awaitCounted(2, PATIENCE));
        }
    }

    @Test
    void groupBeginsAnew(LogbusServer server) throws Exception {
        server.createTopic("orders", 1, 1);
        try (Shop shop = new Shop(server.bootstrap(), 0)) {
            order(shop, "tea");
            assertEquals(1, shop.awaitCounted(1, PATIENCE));
            // The member joins again, and nothing is counted twice.
            server.forceRebalance("counting");
            order(shop, "tea");
            assertEquals(2, shop.awaitCounted(2, PATIENCE));
        }
    }

    @Test
    void producerIsFenced(LogbusServer server) {
        server.createTopic("orders", 1, 1);
        Map<String, Object> settings =
                Map.of("bootstrap.servers", server.bootstrap(), "transactional.id", "till 1", "acks", "all");
        try (KafkaProducer<String, String> till =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            till.initTransactions();
            till.beginTransaction();
            till.send(new ProducerRecord<>("orders", "tea"));
            till.flush();
            server.fenceProducer("till 1");
            assertThrows(KafkaException.class, till::commitTransaction);
        }
    }

    @Test
    void brokerIsCutOffOneWay() throws Exception {
        LogbusServer cluster = LogbusServer.start(new LogbusServer.Options().brokers(2).asVersion("2.8"));
        try (cluster) {
            cluster.createTopic("orders", 1, 2);
            cluster.moveLeader("orders", 0, 1);
            // Nothing that the follower says arrives at the leader, until they are connected again.
            cluster.cutOff(0, LogbusServer.Way.FROM, 1);
            cluster.reconnect(0);
            try (Shop shop = new Shop(cluster.bootstrap(), 0)) {
                assertEquals("{\"partition\": 0, \"offset\": 0}", order(shop, "tea").body());
            }
        }
        IllegalStateException error = assertThrows(IllegalStateException.class, cluster::clearFaults);
        assertTrue(error.getMessage().contains("the server has ended"), error.getMessage());
    }

    @Test
    void wrongSettingIsTold() {
        IllegalStateException error = assertThrows(
                IllegalStateException.class,
                () -> LogbusServer.start(new LogbusServer.Options().set("num.partitions", "none")));
        assertTrue(error.getMessage().contains("num.partitions: 'none'"), error.getMessage());
    }

    private static HttpResponse<String> order(Shop shop, String item) throws Exception {
        return request(shop, "/orders/" + item, "POST");
    }

    private static HttpResponse<String> request(Shop shop, String path, String method) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + shop.port() + path))
                .method(method, HttpRequest.BodyPublishers.noBody())
                .timeout(PATIENCE)
                .build();
        return HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
    }
}
