import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.FeatureMetadata;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** What an administrator does; the first argument is always where: HOST:PORT. */
final class Administration {
    static final Map<String, Driver.Command> COMMANDS = Map.ofEntries(
        Map.entry("cluster", with(Administration::cluster)),
        Map.entry("create", with(Administration::create)),
        Map.entry("grow", with((admin, call, told) ->
            admin.createPartitions(Map.of(told[1], NewPartitions.increaseTo(number(told[2])))).all().get())),
        Map.entry("topic", with(Administration::topic)),
        Map.entry("drop", with((admin, call, told) -> admin.deleteTopics(List.of(told[1])).all().get())),
        Map.entry("alter", with(Administration::alter)),
        Map.entry("config", with((admin, call, told) -> {
            ConfigResource resource = resource(told);
            call.say("is", admin.describeConfigs(List.of(resource)).all().get().get(resource).get(told[3]).value());
        })),
        Map.entry("reassign", with(Administration::reassign)),
        Map.entry("reassignments", with(Administration::reassignments)),
        Map.entry("elect", with(Administration::elect)),
        Map.entry("truncate", with((admin, call, told) -> {
            TopicPartition place = place(told);
            RecordsToDelete before = RecordsToDelete.beforeOffset(Long.parseLong(told[3]));
            call.say("low", admin.deleteRecords(Map.of(place, before)).lowWatermarks().get(place).get().lowWatermark());
        })),
        Map.entry("latest", with((admin, call, told) -> {
            TopicPartition place = place(told);
            call.say("is", admin.listOffsets(Map.of(place, OffsetSpec.latest())).partitionResult(place).get().offset());
        })),
        Map.entry("pages", with(Administration::pages)),
        Map.entry("features", with(Administration::features)),
        Map.entry("finalize", with((admin, call, told) ->
            admin.updateFeatures(Map.of(told[1], new FeatureUpdate(Short.parseShort(told[2]),
                FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions()).all().get())),
        Map.entry("resources", with(Administration::resources)),
        Map.entry("committed", with((admin, call, told) ->
            call.say("has", admin.listConsumerGroupOffsets(told[1]).partitionsToOffsetAndMetadata().get().size())))
    );

    private interface Task {
        void run(Admin admin, Driver.Call call, String[] told) throws Exception;
    }

    private Administration() {
    }

    private static Driver.Command with(Task task) {
        return (call, told) -> {
            try (Admin admin = Admin.create(Map.of("bootstrap.servers", told[0]))) {
                task.run(admin, call, told);
            }
        };
    }

    private static int number(String text) {
        return Integer.parseInt(text);
    }

    private static TopicPartition place(String[] told) {
        return new TopicPartition(told[1], number(told[2]));
    }

    /** The brokers of "0,2,1", in this order. */
    private static List<Integer> brokers(String text) {
        List<Integer> found = new ArrayList<>();
        for (String each : text.split(",")) {
            found.add(number(each));
        }
        return found;
    }

    private static String ids(List<Node> nodes) {
        return String.join(",", nodes.stream().map(Node::idString).toList());
    }

    private static ConfigResource resource(String[] told) {
        return new ConfigResource(ConfigResource.Type.valueOf(told[1]), told[2]);
    }

    private static void cluster(Admin admin, Driver.Call call, String[] told) throws Exception {
        DescribeClusterResult found = admin.describeCluster();
        call.say("cluster", found.clusterId().get(), found.controller().get().id());
        for (Node node : found.nodes().get()) {
            call.say("broker", node.id(), node.host() + ":" + node.port(), node.rack());
        }
    }

    /** where, topic, replicas "0,1;1,2" of each partition or "PARTITIONSxFACTOR", then settings as name, value. */
    private static void create(Admin admin, Driver.Call call, String[] told) throws Exception {
        NewTopic topic;
        if (told[2].contains("x")) {
            String[] counts = told[2].split("x");
            topic = new NewTopic(told[1], number(counts[0]), Short.parseShort(counts[1]));
        } else {
            Map<Integer, List<Integer>> replicas = new HashMap<>();
            for (String each : told[2].split(";")) {
                replicas.put(replicas.size(), brokers(each));
            }
            topic = new NewTopic(told[1], replicas);
        }
        Map<String, String> configs = new HashMap<>();
        for (int at = 3; at < told.length; at += 2) {
            configs.put(told[at], told[at + 1]);
        }
        var made = admin.createTopics(List.of(topic.configs(configs)));
        made.all().get();
        call.say("made", made.numPartitions(told[1]).get(), made.replicationFactor(told[1]).get());
    }

    private static void topic(Admin admin, Driver.Call call, String[] told) throws Exception {
        var found = admin.describeTopics(List.of(told[1])).allTopicNames().get().get(told[1]);
        for (var partition : found.partitions()) {
            call.say("partition", partition.partition(), partition.leader() == null ? -1 : partition.leader().id(),
                ids(partition.replicas()), ids(partition.isr()));
        }
    }

    /** where, topic, partitions at a time. */
    private static void pages(Admin admin, Driver.Call call, String[] told) throws Exception {
        var options = new DescribeTopicsOptions().partitionSizeLimitPerResponse(number(told[2]));
        var found = admin.describeTopics(List.of(told[1]), options).allTopicNames().get().get(told[1]);
        found.partitions().forEach(each -> call.say("partition", each.partition(), each.elr(), each.lastKnownElr()));
    }

    private static void features(Admin admin, Driver.Call call, String[] told) throws Exception {
        FeatureMetadata found = admin.describeFeatures().featureMetadata().get();
        found.finalizedFeatures().forEach((name, levels) -> call.say("finalized", name, levels.maxVersionLevel()));
        found.supportedFeatures().forEach((name, range) ->
            call.say("supported", name, range.minVersion(), range.maxVersion()));
    }

    /** where, then the types. */
    private static void resources(Admin admin, Driver.Call call, String[] told) throws Exception {
        Set<ConfigResource.Type> types = new HashSet<>();
        for (int at = 1; at < told.length; at++) {
            types.add(ConfigResource.Type.valueOf(told[at]));
        }
        for (ConfigResource each : admin.listConfigResources(types, new ListConfigResourcesOptions()).all().get()) {
            call.say("resource", each.type(), each.name());
        }
    }

    /** where, TOPIC or BROKER, its name, the setting, its value or "-" to have it no more. */
    private static void alter(Admin admin, Driver.Call call, String[] told) throws Exception {
        boolean ends = told[4].equals("-");
        AlterConfigOp change = new AlterConfigOp(
            new ConfigEntry(told[3], ends ? null : told[4]),
            ends ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(resource(told), List.of(change))).all().get();
    }

    /** where, topic, partition, replicas or "-" to cancel. */
    private static void reassign(Admin admin, Driver.Call call, String[] told) throws Exception {
        Optional<NewPartitionReassignment> wanted = told[3].equals("-")
            ? Optional.empty()
            : Optional.of(new NewPartitionReassignment(brokers(told[3])));
        admin.alterPartitionReassignments(Map.of(place(told), wanted)).all().get();
    }

    private static void reassignments(Admin admin, Driver.Call call, String[] told) throws Exception {
        admin.listPartitionReassignments().reassignments().get().forEach((place, moves) ->
            call.say("moves", place.topic(), place.partition(), moves.replicas(), moves.addingReplicas(),
                moves.removingReplicas()));
    }

    /** where, topic, partition, PREFERRED or UNCLEAN; topic "*": of all partitions. */
    private static void elect(Admin admin, Driver.Call call, String[] told) throws Exception {
        Set<TopicPartition> places = told[1].equals("*") ? null : new HashSet<>(Set.of(place(told)));
        var found = admin.electLeaders(ElectionType.valueOf(told[3]), places).partitions().get();
        found.forEach((place, error) -> call.say("elected", place.topic(), place.partition(),
            error.map(failure -> failure.getClass().getSimpleName()).orElse("-")));
    }
}
