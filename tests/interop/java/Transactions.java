import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Transactional producers, each known by a number of its own: the first word of its commands; and who reads. */
final class Transactions {
    private static final Map<String, KafkaProducer<byte[], byte[]>> PRODUCERS = new ConcurrentHashMap<>();

    static final Map<String, Driver.Command> COMMANDS = Map.of(
        "txn-init", Transactions::init,
        "txn-begin", (call, told) -> producer(told).beginTransaction(),
        "txn-send", Transactions::send,
        "txn-offsets", Transactions::offsets,
        "txn-commit", (call, told) -> producer(told).commitTransaction(),
        "txn-abort", (call, told) -> producer(told).abortTransaction(),
        "txn-close", (call, told) -> PRODUCERS.remove(told[0]).close(),
        "until", Transactions::until
    );

    private Transactions() {
    }

    private static KafkaProducer<byte[], byte[]> producer(String[] told) {
        return PRODUCERS.get(told[0]);
    }

    /** settings. */
    private static void init(Driver.Call call, String[] told) {
        KafkaProducer<byte[], byte[]> made =
            new KafkaProducer<>(Driver.settings(told[1]), new ByteArraySerializer(), new ByteArraySerializer());
        PRODUCERS.put(told[0], made);
        made.initTransactions();
    }

    /** topic, partition, values; returns when all are acknowledged. */
    private static void send(Driver.Call call, String[] told) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int at = 3; at < told.length; at++) {
            sent.add(producer(told).send(
                new ProducerRecord<>(told[1], Integer.valueOf(told[2]), null, Driver.bytes(told[at]))));
        }
        for (Future<RecordMetadata> each : sent) {
            each.get();
        }
    }

    /** group, topic, then partition and offset of each. */
    private static void offsets(Driver.Call call, String[] told) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (int at = 3; at < told.length; at += 2) {
            offsets.put(new TopicPartition(told[2], Integer.parseInt(told[at])),
                new OffsetAndMetadata(Long.parseLong(told[at + 1])));
        }
        producer(told).sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(told[1], -1, "", Optional.empty()));
    }

    /** settings, topic, partition, value: all records before the first one of that value. */
    private static void until(Driver.Call call, String[] told) {
        TopicPartition place = new TopicPartition(told[1], Integer.parseInt(told[2]));
        try (KafkaConsumer<byte[], byte[]> consumer = Records.consumer(told[0])) {
            consumer.assign(List.of(place));
            consumer.seek(place, 0);
            while (!call.stopped) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    if (Driver.text(record.value()).equals(told[3])) {
                        return;
                    }
                    Records.tell(call, record);
                }
            }
        }
    }
}
