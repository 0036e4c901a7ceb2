import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Producing and consuming. */
final class Records {
    static final Map<String, Driver.Command> COMMANDS = Map.of(
        "produce", Records::produce,
        "fetch", Records::fetch,
        "work", Records::work,
        "member", Records::member,
        "sources", Records::sources
    );

    private Records() {
    }

    private static KafkaProducer<byte[], byte[]> producer(String settings) {
        return new KafkaProducer<>(Driver.settings(settings), new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<byte[], byte[]> consumer(String settings) {
        Properties told = Driver.settings(settings);
        return new KafkaConsumer<>(told, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** settings, topic, partition, then for each record: key, value, timestamp, headers "name=value,...". */
    private static void produce(Driver.Call call, String[] told) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(told[0])) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int at = 3; at < told.length; at += 4) {
                Long timestamp = told[at + 2].equals("-") ? null : Long.valueOf(told[at + 2]);
                ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
                    told[1], Integer.valueOf(told[2]), timestamp, Driver.bytes(told[at]), Driver.bytes(told[at + 1]));
                for (String header : told[at + 3].isEmpty() ? new String[0] : told[at + 3].split(",")) {
                    int end = header.indexOf(':');
                    record.headers().add(header.substring(0, end), Driver.bytes(header.substring(end + 1)));
                }
                sent.add(producer.send(record));
            }
            for (Future<RecordMetadata> each : sent) {
                each.get();
            }
        }
    }

    static void tell(Driver.Call call, ConsumerRecord<byte[], byte[]> record) {
        List<String> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            headers.add(header.key() + ":" + Driver.text(header.value()));
        }
        call.say("record", record.topic(), record.partition(), record.offset(), Driver.text(record.key()),
            Driver.text(record.value()), record.timestamp(),
            record.timestampType() == TimestampType.LOG_APPEND_TIME, String.join(",", headers));
    }

    /** settings, topic, partition, offset, count. */
    private static void fetch(Driver.Call call, String[] told) {
        TopicPartition place = new TopicPartition(told[1], Integer.parseInt(told[2]));
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(told[0])) {
            consumer.assign(List.of(place));
            consumer.seek(place, Long.parseLong(told[3]));
            int left = Integer.parseInt(told[4]);
            while (left > 0 && !call.stopped) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    if (left-- > 0) {
                        tell(call, record);
                    }
                }
            }
        }
    }

    /**
     * settings, topic, partitions, milliseconds between records: until it is told to stop, values 0, 1, 2 ... of a
     * partition in turn; in the end says how many it sent, and as soon as it is known what failed.
     */
    private static void work(Driver.Call call, String[] told) throws Exception {
        int partitions = Integer.parseInt(told[2]);
        AtomicInteger acknowledged = new AtomicInteger();
        int number = 0;
        try (KafkaProducer<byte[], byte[]> producer = producer(told[0])) {
            for (; !call.stopped; number++) {
                byte[] value = Integer.toString(number).getBytes();
                producer.send(new ProducerRecord<>(told[1], number % partitions, null, value), (metadata, error) -> {
                    if (error == null) {
                        acknowledged.incrementAndGet();
                    } else {
                        call.say("lost", new String(value), error);
                    }
                });
                Thread.sleep(Long.parseLong(told[3]));
            }
        }
        call.say("sent", number, acknowledged.get());
    }

    /** settings, topic: a member that commits what it has processed, until it is told to stop. */
    private static void member(Driver.Call call, String[] told) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(told[0])) {
            consumer.subscribe(List.of(told[1]), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                    call.say("assigned", partitions.size());
                }

                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                    call.say("revoked", partitions.size());
                }
            });
            while (!call.stopped) {
                var records = consumer.poll(Duration.ofMillis(50));
                records.forEach(record -> tell(call, record));
                if (!records.isEmpty()) {
                    try {
                        consumer.commitSync();
                    } catch (org.apache.kafka.clients.consumer.CommitFailedException moved) {
                        call.say("moved", moved);
                    }
                }
            }
            for (TopicPartition place : consumer.assignment()) {
                OffsetAndMetadata held = consumer.committed(java.util.Set.of(place)).get(place);
                call.say("committed", place.partition(), held == null ? -1 : held.offset());
            }
        }
    }

    /** settings, topic, partition, count: reads so many from the beginning; how many bytes came from which broker. */
    private static void sources(Driver.Call call, String[] told) {
        TopicPartition place = new TopicPartition(told[1], Integer.parseInt(told[2]));
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(told[0])) {
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            int left = Integer.parseInt(told[3]);
            while (left > 0 && !call.stopped) {
                left -= consumer.poll(Duration.ofMillis(100)).count();
            }
            for (Map.Entry<MetricName, ? extends Metric> each : consumer.metrics().entrySet()) {
                if (each.getKey().name().equals("incoming-byte-total") && each.getKey().tags().containsKey("node-id")) {
                    call.say("from", each.getKey().tags().get("node-id"), each.getValue().metricValue());
                }
            }
        }
    }
}
