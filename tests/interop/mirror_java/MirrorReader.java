package org.apache.kafka.connect.mirror;

import java.time.Duration;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * What Apache's own classes say about a mirror: the bytes of its records, and what clients find at the target.  In this
 * package, since the methods that encode records are not public.
 */
public final class MirrorReader {
    private static void say(Object... words) {
        StringBuilder line = new StringBuilder();
        for (Object word : words) {
            line.append(line.length() == 0 ? "" : "\t").append(word);
        }
        System.out.println(line);
    }

    private static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }

    private static void encode() {
        TopicPartition partition = new TopicPartition("orders-\u00e9", 3);
        OffsetSync sync = new OffsetSync(partition, 17, 1L << 40);
        say("sync", hex(sync.recordKey()), hex(sync.recordValue()));
        Checkpoint checkpoint = new Checkpoint("billing", partition, 17, 1L << 40, "m\u00e9ta");
        say("checkpoint", hex(checkpoint.recordKey()), hex(checkpoint.recordValue()));
        Heartbeat beat = new Heartbeat("a", "bc", 1700000000000L);
        say("heartbeat", hex(beat.recordKey()), hex(beat.recordValue()));
    }

    /** The arguments are the target, the alias of the source, and a group. */
    public static void main(String[] arguments) throws Exception {
        encode();
        if (arguments.length == 0) {
            return;
        }
        Map<String, Object> target = Map.of("bootstrap.servers", arguments[0]);
        String source = arguments[1];
        Map<TopicPartition, OffsetAndMetadata> offsets =
            RemoteClusterUtils.translateOffsets(target, source, arguments[2], Duration.ofSeconds(30));
        Map<String, OffsetAndMetadata> sorted = new TreeMap<>();
        offsets.forEach((partition, at) -> sorted.put(partition.toString(), at));
        sorted.forEach((partition, at) -> say("offset", partition, at.offset(), at.metadata()));
        say("upstream", new TreeSet<>(RemoteClusterUtils.upstreamClusters(target)));
        say("hops", RemoteClusterUtils.replicationHops(target, source));
        say("checkpoints", new TreeSet<>(RemoteClusterUtils.checkpointTopics(target)));
        say("heartbeats", new TreeSet<>(RemoteClusterUtils.heartbeatTopics(target)));
    }
}
