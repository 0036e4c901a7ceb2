import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Members of share groups. */
final class Shares {
    static final Map<String, Driver.Command> COMMANDS = Map.of(
        "share", Shares::share, "shareMembers", Shares::members);

    private Shares() {
    }

    /** settings, group: says the members that the group has. */
    private static void members(Driver.Call call, String[] told) throws Exception {
        try (Admin admin = Admin.create(Driver.settings(told[0]))) {
            admin.describeShareGroups(List.of(told[1])).all().get().get(told[1]).members().forEach(member ->
                call.say("member", member.consumerId()));
        }
    }

    /**
     * settings, topic, what is said of records: by turns of their values, "accept", "release" or "reject"; or "nothing", after
     * which it polls no more.
     *
     * It says each record, with how often it was delivered, commits after each poll, and says which ones were
     * accepted for certain, and of which that was not told.  All members of this process have one clock.
     */
    private static void share(Driver.Call call, String[] told) throws Exception {
        BlockingQueue<String> problems = new LinkedBlockingQueue<>();
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(
                Driver.settings(told[0]), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.setAcknowledgementCommitCallback((offsets, error) -> {
                if (error != null) {
                    problems.add(String.valueOf(error));
                }
            });
            consumer.subscribe(List.of(told[1]));
            int at = 0;
            boolean holds = false;
            while (!call.stopped) {
                List<ConsumerRecord<byte[], byte[]>> accepted = new ArrayList<>();
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    call.say("record", record.partition(), record.offset(), Driver.text(record.value()),
                        record.deliveryCount().orElse((short) 0), System.nanoTime());
                    String kind = told[2 + at++ % (told.length - 2)];
                    if (kind.equals("nothing")) {
                        holds = true;
                    } else {
                        consumer.acknowledge(record, AcknowledgeType.valueOf(kind.toUpperCase()));
                        if (kind.equals("accept")) {
                            accepted.add(record);
                        }
                    }
                }
                if (holds) {
                    while (!call.stopped) {
                        Thread.sleep(10);
                    }
                    break;
                }
                Map<TopicIdPartition, Optional<KafkaException>> kept = consumer.commitSync(Duration.ofSeconds(30));
                long now = System.nanoTime();
                kept.forEach((partition, error) -> {
                    error.ifPresent(problem -> call.say("problem", problem));
                    for (ConsumerRecord<byte[], byte[]> record : accepted) {
                        if (record.partition() == partition.partition()) {
                            call.say(error.isEmpty() ? "kept" : "unsure", record.partition(), record.offset(), now);
                        }
                    }
                });
                for (String problem = problems.poll(); problem != null; problem = problems.poll()) {
                    call.say("problem", problem);
                }
            }
        }
        for (String problem = problems.poll(); problem != null; problem = problems.poll()) {
            call.say("problem", problem);
        }
    }
}
