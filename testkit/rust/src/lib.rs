//! Runs logbus, a Kafka-compatible broker, for tests.
//!
//! ```no_run
//! use logbus_testkit::{Options, Server};
//!
//! let server = Server::start(&Options::default()).unwrap();
//! server.create_topic("orders", 3, 1).unwrap();
//! let bootstrap = server.bootstrap();
//! ```
//!
//! The command `logbus` must be on PATH; `LOGBUS_COMMAND` names another, with its arguments separated by blanks. The
//! server ends when it is dropped, and with this process, however that ends. Calls block: asynchronous tests call them
//! from a thread, or do not mind.

use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{json, Value};

/// What went wrong, in one line.
#[derive(Debug)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "logbus test server: {}", self.0)
    }
}

impl std::error::Error for Error {}

fn failed<T>(why: impl fmt::Display) -> Result<T, Error> {
    Err(Error(why.to_string()))
}

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many brokers; more than one are a cluster.
    pub brokers: u32,
    /// Settings by Kafka's names, and their values.
    pub settings: Vec<(String, String)>,
    /// A release of Kafka, such as "2.8", whose API versions the brokers have; `None` is the newest.
    pub as_version: Option<String>,
    /// Run each broker as a process of its own, which can be killed and frozen.
    pub own_process: bool,
    /// How long the start may take.
    pub start_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            brokers: 1,
            settings: Vec::new(),
            as_version: None,
            own_process: false,
            start_timeout: Duration::from_secs(120),
        }
    }
}

/// The direction of a cut, as seen by the broker that is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Connections are closed.
    Both,
    /// Nothing that it says arrives; connections stay open, and hold it.
    From,
    /// It hears nothing.
    To,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Both => "both",
            Way::From => "from",
            Way::To => "to",
        }
    }
}

/// A running test server.
pub struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    directory: PathBuf,
    told: Value,
}

const STOP: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);
static NUMBERS: AtomicU32 = AtomicU32::new(0);

impl Server {
    /// Starts a server and waits until it serves clients.
    pub fn start(options: &Options) -> Result<Server, Error> {
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("logbus-testkit-{}-{}", std::process::id(), number));
        fs::create_dir(&directory).or_else(|e| failed(format!("{}: {e}", directory.display())))?;
        let file = directory.join("server.json");
        let errors = directory.join("stderr");
        let mut child = match launch(options, &file, &errors) {
            Ok(child) => child,
            Err(e) => {
                let _ = fs::remove_dir_all(&directory);
                return failed(e);
            }
        };
        // The server ends when this pipe does.
        let stdin = child.stdin.take();
        let mut server = Server { child, stdin, directory, told: Value::Null };
        server.await_ready(&file, &errors, options.start_timeout)?;
        Ok(server)
    }

    fn await_ready(&mut self, file: &Path, errors: &Path, timeout: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + timeout;
        loop {
            let over = self.child.try_wait().or_else(failed)?.is_some();
            if let Ok(text) = fs::read(file) {
                self.told = serde_json::from_slice(&text).or_else(failed)?;
                return match self.told["error"].as_str() {
                    Some(error) => failed(error),
                    None => Ok(()),
                };
            }
            let said = || fs::read_to_string(errors).unwrap_or_default();
            if over {
                return failed(format!("it ended: {}", said().trim()));
            }
            if Instant::now() > deadline {
                return failed(format!("it was not ready after {timeout:?}: {}", said().trim()));
            }
            thread::sleep(LOOK);
        }
    }

    /// HOST:PORT of all brokers, separated by commas.
    pub fn bootstrap(&self) -> &str {
        self.text("bootstrap")
    }

    /// The same as a list.
    pub fn brokers(&self) -> Vec<String> {
        self.bootstrap().split(',').map(str::to_owned).collect()
    }

    /// The HTTP address of the first broker.
    pub fn admin_url(&self) -> &str {
        self.text("admin_url")
    }

    /// The address of its schema registry.
    pub fn registry_url(&self) -> &str {
        self.text("registry_url")
    }

    /// Has all brokers begin anew, empty, without faults and on the same addresses.
    pub fn reset(&self) -> Result<(), Error> {
        self.control("POST", "/server/reset", None).map(drop)
    }

    /// Creates a topic; 0 is the broker's default.
    pub fn create_topic(&self, name: &str, partitions: u32, replication_factor: u32) -> Result<(), Error> {
        let mut topic = json!({ "name": name });
        if partitions > 0 {
            topic["partitions"] = partitions.into();
        }
        if replication_factor > 0 {
            topic["replication_factor"] = replication_factor.into();
        }
        self.control("POST", "/topics", Some(&topic)).map(drop)
    }

    /// Deletes a topic.
    pub fn delete_topic(&self, name: &str) -> Result<(), Error> {
        self.control("DELETE", &format!("/topics/{name}"), None).map(drop)
    }

    /// Has something happen to the next requests of clients, such as
    /// `json!({"action": "fail", "api": "Produce", "error": "NOT_ENOUGH_REPLICAS", "times": 2})`; the fault's number.
    pub fn add_fault(&self, rule: &Value) -> Result<u64, Error> {
        Ok(self.control("POST", "/faults", Some(rule))?["id"].as_u64().unwrap_or_default())
    }

    /// How often a fault has happened, once that is `hits` times, or after the timeout.
    pub fn fault_hits(&self, fault: u64, hits: u64, timeout: Duration) -> Result<u64, Error> {
        let path = format!("/faults/{fault}?hits={hits}&timeout={}", timeout.as_secs());
        Ok(self.control("GET", &path, None)?["hits"].as_u64().unwrap_or_default())
    }

    /// Removes all faults.
    pub fn clear_faults(&self) -> Result<(), Error> {
        self.control("DELETE", "/faults", None).map(drop)
    }

    /// Changes a broker: `start`, `stop`, `restart`, `kill`, `freeze`, `thaw`, `reconnect` or `expire-session`. A
    /// single broker can be killed and frozen with `own_process`, one of a cluster always killed.
    pub fn change_broker(&self, id: u32, change: &str) -> Result<(), Error> {
        self.control("POST", &format!("/brokers/{id}/{change}"), None).map(drop)
    }

    /// Lets nothing through between a broker of a cluster and others, by their numbers; without any, between it and all
    /// others and the metadata store. `change_broker(id, "reconnect")` ends it. Clients still reach it.
    pub fn cut_off(&self, id: u32, others: &[u32]) -> Result<(), Error> {
        self.cut_off_way(id, others, Way::Both)
    }

    /// The same in one direction. One way, brokers are cut off, and the metadata store is not.
    pub fn cut_off_way(&self, id: u32, others: &[u32], way: Way) -> Result<(), Error> {
        let mut body = json!({ "way": way.name() });
        if !others.is_empty() {
            body["others"] = others.into();
        }
        self.control("POST", &format!("/brokers/{id}/cut-off"), Some(&body)).map(drop)
    }

    /// Has a broker with a replica lead a partition.
    pub fn move_leader(&self, topic: &str, partition: u32, to: u32) -> Result<(), Error> {
        let path = format!("/topics/{topic}/partitions/{partition}/move-leader");
        self.control("POST", &path, Some(&json!({ "to": to }))).map(drop)
    }

    /// Leaves a transaction open, with a record in a partition; its transactional id.
    pub fn hang_transaction(&self, topic: &str, partition: u32) -> Result<String, Error> {
        let answer = self.control("POST", "/transactions", Some(&json!({ "topic": topic, "partition": partition })))?;
        Ok(answer["transactional_id"].as_str().unwrap_or_default().to_owned())
    }

    /// Has all members of a group of the classic protocol join again.
    pub fn force_rebalance(&self, group: &str) -> Result<(), Error> {
        self.control("POST", &format!("/groups/{}/rebalance", escaped(group)), None).map(drop)
    }

    /// Aborts the transaction of an id, and fences its producer: what that does next fails.
    pub fn fence_producer(&self, transactional_id: &str) -> Result<(), Error> {
        self.control("POST", &format!("/producers/{}/fence", escaped(transactional_id)), None).map(drop)
    }

    /// Lets time pass for the brokers, without waiting.
    pub fn advance(&self, time: Duration) -> Result<(), Error> {
        self.control("POST", "/time/advance", Some(&json!({ "seconds": time.as_secs_f64() }))).map(drop)
    }

    /// Sends a request to the control interface: whatever has no method here. The answer's JSON; null: it has none.
    pub fn control(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, Error> {
        let url = self.text("control_url").trim_start_matches("http://");
        let (host, prefix) = url.split_once('/').unwrap_or((url, ""));
        let content = body.map(Value::to_string).unwrap_or_default();
        let request = format!(
            "{method} /{prefix}{path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{content}",
            self.text("token"),
            content.len(),
        );
        let answer = exchange(host, &request).or_else(|e| failed(format!("{method} {path}: {e}")))?;
        let (head, text) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status: u32 = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        let value = if text.is_empty() { Value::Null } else { serde_json::from_str(text).or_else(failed)? };
        if !(200..300).contains(&status) {
            let detail = value["detail"].as_str().unwrap_or_default();
            return failed(format!("{method} {path}: {status}: {detail}"));
        }
        Ok(value)
    }

    fn text(&self, member: &str) -> &str {
        self.told[member].as_str().unwrap_or_default()
    }
}

impl Drop for Server {
    /// Ends the server, and waits until nothing of it is left.
    fn drop(&mut self) {
        drop(self.stdin.take());
        let deadline = Instant::now() + STOP;
        while let Ok(None) = self.child.try_wait() {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            thread::sleep(LOOK);
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn launch(options: &Options, file: &Path, errors: &Path) -> Result<Child, String> {
    let given = std::env::var("LOGBUS_COMMAND").unwrap_or_default();
    let mut words = given.split_whitespace();
    let program = words.next().unwrap_or("logbus");
    let mut command = Command::new(program);
    command.args(words).arg("test-server").arg("--port-file").arg(file);
    command.args(["--brokers", &options.brokers.to_string()]);
    if let Some(release) = &options.as_version {
        command.args(["--as-version", release]);
    }
    if options.own_process {
        command.arg("--own-process");
    }
    for (name, value) in &options.settings {
        command.args(["--set", &format!("{name}={value}")]);
    }
    let errors = fs::File::create(errors).map_err(|e| e.to_string())?;
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(errors);
    command.spawn().map_err(|e| format!("{program}: {e}; install logbus, or set LOGBUS_COMMAND"))
}

/// A segment of a path.
fn escaped(segment: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    segment.bytes().map(|byte| if plain(byte) { char::from(byte).into() } else { format!("%{byte:02X}") }).collect()
}

/// Sends a request, and reads the answer until the connection ends.
fn exchange(host: &str, request: &str) -> std::io::Result<String> {
    let mut connection = TcpStream::connect(host)?;
    connection.write_all(request.as_bytes())?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    Ok(answer)
}
