//! Stores and one AllocSvr as processes, the first store on a directory that holds a given state.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use seqsvr_client::{Client, Options as ClientOptions};
use seqsvr_core::state::State;
use seqsvr_store::Options as StoreOptions;
use seqsvr_test_support::process::{ServerProcess, free_ports, release_binary};
use seqsvr_test_support::process_cluster::store_args;
use seqsvr_test_support::process_stats::ProcessStats;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Time between two looks at something that is waited for.
const POLL: Duration = Duration::from_millis(50);
/// Time of one call of an operator. A join takes longer, and is called again.
const CALL: Duration = Duration::from_secs(60);

struct Member {
    id: u64,
    address: String,
    process: Option<ServerProcess>,
}

/// The processes; all are killed when it is dropped.
pub(super) struct Rig {
    members: Vec<Member>,
    alloc: Option<(ServerProcess, String, u16)>,
    // Removed after the processes are gone.
    dir: TempDir,
}

impl Rig {
    /// Writes the data directory of store 1.
    pub(super) async fn prepare(state: &State) -> Result<Rig, String> {
        let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
        let mut rig = Rig {
            members: Vec::new(),
            alloc: None,
            dir,
        };
        let address = rig.add(1);
        let listen = address
            .parse()
            .map_err(|_| format!("no address: {address}"))?;
        let options = StoreOptions::new(1, listen, rig.data_dir(1)).raft_options(address);
        let prepared = seqsvr_store::restore::prepare_data_dir(state, &options).await;
        prepared.map_err(|e| e.to_string())?;
        Ok(rig)
    }

    fn data_dir(&self, id: u64) -> PathBuf {
        self.dir.path().join(format!("store-{id}"))
    }

    fn add(&mut self, id: u64) -> String {
        let address = format!("127.0.0.1:{}", free_ports(1));
        self.members.push(Member {
            id,
            address: address.clone(),
            process: None,
        });
        address
    }

    /// Bytes of the snapshot of store 1.
    pub(super) fn snapshot_bytes(&self) -> Result<u64, String> {
        let files = std::fs::read_dir(self.data_dir(1).join("snapshots"));
        let files = files.map_err(|e| e.to_string())?.flatten();
        Ok(files
            .flat_map(|file| file.metadata())
            .map(|m| m.len())
            .sum())
    }

    /// Starts store 1.
    pub(super) fn start_first(&mut self) {
        self.start(1);
    }

    fn start(&mut self, id: u64) {
        let data = self.data_dir(id).display().to_string();
        let dir = self.dir.path().to_owned();
        for member in self.members.iter_mut().filter(|m| m.id == id) {
            let args = store_args(id, &member.address, &data);
            let process = ServerProcess::start_with_binary(
                release_binary(),
                &dir,
                &format!("store-{id}"),
                args,
            );
            member.process = Some(process);
        }
    }

    /// A client of the stores.
    pub(super) fn stores(&self) -> Result<Client, String> {
        let running = self.members.iter().filter(|m| m.process.is_some());
        let options = ClientOptions::new(running.map(|m| m.address.clone()));
        Client::new(ClientOptions {
            deadline: CALL,
            ..options
        })
        .map_err(|e| e.to_string())
    }

    /// Addresses and process ids of the stores that run.
    pub(super) fn running(&self) -> Vec<(u64, String, rustix::process::Pid)> {
        let running = self.members.iter().filter_map(|m| {
            let process = m.process.as_ref()?;
            Some((m.id, m.address.clone(), process.pid()))
        });
        running.collect()
    }

    /// Waits until the status is answered. Returns the number of sections.
    pub(super) async fn answers(&self, within: Duration) -> Result<u64, String> {
        let begun = Instant::now();
        loop {
            let status = self.stores()?.with_deadline(POLL * 10);
            if let Ok(status) = status.admin().cluster_status().await {
                return Ok(status.sections_known);
            }
            expect(begun, within, "the store does not answer")?;
            tokio::time::sleep(POLL).await;
        }
    }

    /// Starts a store with an empty directory and makes it a voter. Returns how long that took.
    pub(super) async fn join(&mut self, id: u64, within: Duration) -> Result<Duration, String> {
        let admin = self.stores()?.admin();
        let address = self.add(id);
        self.start(id);
        let begun = Instant::now();
        loop {
            // It stays a learner if the time of a call runs out, and the next call continues.
            match admin.add_member(id, &address).await {
                Ok(_) => return Ok(begun.elapsed()),
                Err(error) => expect(begun, within, &format!("store {id} does not join: {error}"))?,
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Kills a store and removes it from the members.
    pub(super) async fn remove(&mut self, id: u64) -> Result<(), String> {
        for member in self.members.iter_mut().filter(|m| m.id == id) {
            if let Some(mut process) = member.process.take() {
                process.kill();
            }
        }
        let removed = self.stores()?.admin().remove_member(id).await;
        removed.map(drop).map_err(|e| e.to_string())
    }

    /// Waits until the leader knows that a store lags by fewer entries.
    pub(super) async fn lags_less_than(
        &self,
        id: u64,
        entries: u64,
        within: Duration,
    ) -> Result<(), String> {
        let begun = Instant::now();
        let admin = self.stores()?.admin();
        loop {
            for (_, address, _) in self.running() {
                let status = admin.node_status(&address).await;
                let lag = status
                    .ok()
                    .and_then(|s| s.counters.get(&format!("raft_lag_{id}")).copied());
                if lag.is_some_and(|lag| lag < entries) {
                    return Ok(());
                }
            }
            expect(begun, within, &format!("store {id} lags"))?;
            tokio::time::sleep(POLL).await;
        }
    }

    /// Resident memory of a store.
    pub(super) fn memory(&self, id: u64) -> Result<u64, String> {
        let running = self.running();
        let found = running.iter().find(|(found, ..)| *found == id);
        let (_, _, pid) = found.ok_or_else(|| format!("store {id} does not run"))?;
        let vitals = ProcessStats::read(*pid, None).map_err(|e| e.to_string())?;
        Ok(vitals.memory_bytes)
    }

    /// Starts an AllocSvr, and waits until it owns all slots.
    pub(super) async fn start_alloc(&mut self, within: Duration) -> Result<(), String> {
        let address = format!("127.0.0.1:{}", free_ports(1));
        let http = free_ports(1);
        let door = format!("127.0.0.1:{http}");
        let stores: Vec<String> = self.running().into_iter().map(|(_, a, _)| a).collect();
        let stores = stores.join(",");
        let args = [
            "alloc",
            "--name",
            "a1",
            "--listen",
            &address,
            "--stores",
            &stores,
            "--http-listen",
            &door,
        ];
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let process =
            ServerProcess::start_with_binary(release_binary(), self.dir.path(), "alloc-a1", args);
        self.alloc = Some((process, address, http));
        let begun = Instant::now();
        loop {
            let status = self.stores()?.admin().cluster_status().await;
            if status.is_ok_and(|status| status.free_slots == 0) {
                return Ok(());
            }
            expect(begun, within, "slots are free")?;
            tokio::time::sleep(POLL).await;
        }
    }

    /// Address of the AllocSvr; empty before it is started.
    pub(super) fn alloc_address(&self) -> String {
        self.alloc
            .as_ref()
            .map_or_else(String::new, |(_, address, _)| address.clone())
    }

    /// Port of the AllocSvr's page; 0 before it is started.
    pub(super) fn page_port(&self) -> u16 {
        self.alloc.as_ref().map_or(0, |(_, _, port)| *port)
    }

    /// Time of one status.
    pub(super) async fn status(&self) -> Result<Duration, String> {
        let admin = self.stores()?.admin();
        let begun = Instant::now();
        let status = admin.cluster_status().await;
        status.map(|_| begun.elapsed()).map_err(|e| e.to_string())
    }

    /// Time of what the page asks once a second.
    pub(super) async fn page(&self) -> Result<Duration, String> {
        page(self.page_port()).await
    }
}

/// Gets what the page asks once a second.
pub(super) async fn page(port: u16) -> Result<Duration, String> {
    let begun = Instant::now();
    let got = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let request = b"GET /v1/cluster HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = tokio::time::timeout(CALL, got).await;
    let answer = answer.map_err(|_| String::from("the page does not answer"))?;
    let answer = answer.map_err(|e| e.to_string())?;
    match answer.starts_with(b"HTTP/1.1 200") {
        true => Ok(begun.elapsed()),
        false => Err(String::from_utf8_lossy(&answer).into_owned()),
    }
}

fn expect(begun: Instant, within: Duration, what: &str) -> Result<(), String> {
    match begun.elapsed() < within {
        true => Ok(()),
        false => Err(format!("{what} after {within:?}")),
    }
}
