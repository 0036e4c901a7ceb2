use std::collections::BTreeMap;
use std::time::Duration;

use logbus_testkit::{Options, Server, Way};
use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use rskafka::client::ClientBuilder;
use rskafka::record::Record;
use serde_json::json;

async fn orders(server: &Server) -> PartitionClient {
    let client = ClientBuilder::new(server.brokers()).build().await.unwrap();
    client.partition_client("orders", 0, UnknownTopicHandling::Retry).await.unwrap()
}

async fn produce(partition: &PartitionClient, value: &str) -> i64 {
    let record = Record {
        key: Some(b"42".to_vec()),
        value: Some(value.as_bytes().to_vec()),
        headers: BTreeMap::new(),
        timestamp: chrono::DateTime::from_timestamp_millis(1_700_000_000_000).unwrap(),
    };
    partition.produce(vec![record], Compression::NoCompression).await.unwrap()[0]
}

#[tokio::test]
async fn an_order_arrives() {
    let server = Server::start(&Options::default()).unwrap();
    server.create_topic("orders", 3, 1).unwrap();
    let partition = orders(&server).await;
    assert_eq!(produce(&partition, "two of those").await, 0);
    let (records, high_watermark) = partition.fetch_records(0, 1..1_000_000, 10_000).await.unwrap();
    assert_eq!(records[0].record.value.as_deref(), Some(b"two of those".as_slice()));
    assert_eq!(high_watermark, 1);
}

#[tokio::test]
async fn a_producer_tries_again() {
    let server = Server::start(&Options::default()).unwrap();
    for _ in 0..2 {
        // At the second time it would exist already, were the broker not empty again.
        server.create_topic("orders", 1, 1).unwrap();
        let rule = json!({"action": "fail", "api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "times": 1});
        let fault = server.add_fault(&rule).unwrap();
        produce(&orders(&server).await, "late").await;
        assert_eq!(server.fault_hits(fault, 1, Duration::from_secs(60)).unwrap(), 1);
        server.reset().unwrap();
    }
    let error = server.change_broker(0, "kill").unwrap_err().to_string();
    assert!(error.contains("--own-process"), "{error}");
}

#[test]
fn a_transaction_is_left_open() {
    let server = Server::start(&Options::default()).unwrap();
    server.create_topic("orders", 1, 1).unwrap();
    let id = server.hang_transaction("orders", 0).unwrap();
    server.fence_producer(&id).unwrap();
    let error = server.force_rebalance("no such group").unwrap_err().to_string();
    assert!(error.contains("no such group"), "{error}");
}

#[tokio::test]
async fn a_broker_is_cut_off_one_way() {
    let options = Options { brokers: 2, as_version: Some("2.8".to_owned()), ..Options::default() };
    let cluster = Server::start(&options).unwrap();
    cluster.create_topic("orders", 1, 2).unwrap();
    cluster.move_leader("orders", 0, 1).unwrap();
    // Nothing that the follower says arrives at the leader, until they are connected again.
    cluster.cut_off_way(0, &[1], Way::From).unwrap();
    cluster.change_broker(0, "reconnect").unwrap();
    assert_eq!(produce(&orders(&cluster).await, "two of those").await, 0);
}

#[test]
fn a_wrong_setting_is_told() {
    let settings = vec![("num.partitions".to_owned(), "none".to_owned())];
    let error = Server::start(&Options { settings, ..Options::default() }).err().unwrap().to_string();
    assert!(error.contains("num.partitions: 'none'"), "{error}");
}
