//! The makers of ids: processes with a worker of their own, callers of each AllocSvr, and the
//! holder in Python. All write down their runs in a file of their own.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use seqsvr_proto::v1::NextIdsRequest;
use seqsvr_proto::v1::ids_client::IdsClient;
use seqsvr_test_support::process::{ServerProcess, Signal};
use seqsvr_test_support::wait::wait_until;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tonic::transport::Endpoint;

use super::judge::{JudgedFamily, MakerRuns};
use crate::id_run::{IdRun, RunWriter, monotonic_ns};

/// Longest time until a pause has reached all threads.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(10);
const CALL_TIMEOUT: Duration = Duration::from_secs(8);
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// Time that the holder in Python needs at most to make and write a batch of ids, in nanoseconds.
const PYTHON_BATCH_NS: u64 = 1_000_000_000;

/// A maker of ids.
pub(super) struct Maker {
    pub(super) made: MakerRuns,
    /// None: a task of this process.
    process: Option<ServerProcess>,
    task: Option<JoinHandle<()>>,
    file: PathBuf,
    /// Bytes of the file that were read.
    offset: u64,
}

impl Maker {
    /// Starts a process that makes ids with a worker of its own.
    pub(super) fn start_holder(
        binary: &'static Path,
        dir: &Path,
        servers: &str,
        family: JudgedFamily,
        name: &str,
        interval_ms: u64,
    ) -> Maker {
        let file = dir.join(name).with_extension("runs");
        let path = file.display().to_string();
        let interval_ms = interval_ms.to_string();
        let args = [servers, family.name, name, &path, &interval_ms].map(str::to_owned);
        let process = ServerProcess::start_with_binary(binary, dir, name, args.to_vec());
        Maker::new(family, name, file, Some(process), None)
    }

    /// Starts to take ids from one AllocSvr, which makes them.
    pub(super) fn start_caller(
        dir: &Path,
        address: &str,
        family: JudgedFamily,
        name: &str,
        (count, interval_ms): (u32, u64),
    ) -> Maker {
        let file = dir.join(name).with_extension("runs");
        let runs = RunWriter::open(&file);
        let address = address.to_owned();
        let task = tokio::spawn(call_alloc(address, family, runs, count, interval_ms));
        Maker::new(family, name, file, None, Some(task))
    }

    /// Starts the holder of `docs/examples/python`, if there is a Python for it.
    pub(super) fn start_python(
        dir: &Path,
        address: &str,
        family: JudgedFamily,
        name: &str,
    ) -> Option<Maker> {
        let python = std::env::var("SEQSVR_PYTHON").ok()?;
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let script = root.join("crates/xtask/src/conformance/players/make_ids.py");
        let ids = dir.join(name).with_extension("ids");
        let file = dir.join(name).with_extension("runs");
        let examples = root.join("docs/examples/python");
        let path = format!("PYTHONPATH={}", examples.display());
        let (script, ids_path) = (script.display().to_string(), ids.display().to_string());
        let args = [
            &path,
            &python,
            &script,
            "hold",
            address,
            family.name,
            &ids_path,
            name,
            "0",
        ];
        let args = args.map(str::to_owned).to_vec();
        let process = ServerProcess::start_with_binary(Path::new("/usr/bin/env"), dir, name, args);
        let task = tokio::spawn(copy_ids(ids, family, RunWriter::open(&file)));
        Some(Maker::new(family, name, file, Some(process), Some(task)))
    }

    fn new(
        family: JudgedFamily,
        maker: &str,
        file: PathBuf,
        process: Option<ServerProcess>,
        task: Option<JoinHandle<()>>,
    ) -> Maker {
        let made = MakerRuns {
            family,
            maker: maker.to_owned(),
            runs: Vec::new(),
        };
        Maker {
            made,
            process,
            task,
            file,
            offset: 0,
        }
    }

    /// Returns its process. Panics if it is a task.
    pub(super) fn process(&mut self) -> &mut ServerProcess {
        self.process.as_mut().expect("a maker with a process")
    }

    /// Pauses its process, and waits until no thread runs.
    pub(super) async fn pause(&mut self) {
        self.process().signal(Signal::STOP);
        let process = self.process();
        let is_stopped = async || process.is_stopped().then_some(());
        wait_until("the pause of a maker", PAUSE_TIMEOUT, is_stopped).await;
    }

    /// Reads the runs that it wrote since the last time. Panics if it ended by itself.
    pub(super) fn read(&mut self) {
        let name = &self.made.maker;
        if let Some(process) = &mut self.process {
            assert!(!process.has_ended(), "{name} ended");
        }
        assert!(
            !self.task.as_ref().is_some_and(JoinHandle::is_finished),
            "{name} ended"
        );
        let text = String::from_utf8(read_from(&self.file, self.offset)).expect("text");
        // A process that was killed may leave a part of a line.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.offset += whole as u64;
        for line in text[..whole].lines() {
            self.made.runs.push(line.parse().expect("a run of ids"));
        }
    }

    /// Ends it, and returns what it made.
    pub(super) fn stop(mut self) -> MakerRuns {
        self.read();
        if let Some(process) = &mut self.process {
            process.kill();
        }
        // What was being taken is in no file; a task ends before the files of its cluster.
        self.task.take().inspect(JoinHandle::abort);
        self.process = None;
        self.read();
        self.made
    }
}

/// Takes so many ids of one AllocSvr each interval, each time above those before.
async fn call_alloc(
    address: String,
    family: JudgedFamily,
    mut file: RunWriter,
    count: u32,
    interval_ms: u64,
) {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("a good address");
    let mut client = IdsClient::new(endpoint.connect_lazy());
    let mut turns = interval(Duration::from_millis(interval_ms));
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut floor = None;
    loop {
        turns.tick().await;
        let request = NextIdsRequest {
            family: family.name.to_owned(),
            count: Some(count),
            runs: true,
            floor,
        };
        let begin = monotonic_ns();
        let answer = timeout(CALL_TIMEOUT, client.next_ids(request)).await;
        let end = monotonic_ns();
        let Ok(Ok(answer)) = answer else {
            sleep(RETRY_INTERVAL).await;
            continue;
        };
        let run = |run: seqsvr_proto::v1::IdRun| IdRun {
            worker: run.worker,
            lane: run.lane,
            epoch: Some(run.epoch),
            first: run.first,
            count: u64::from(run.count),
            begin,
            end,
        };
        let runs: Vec<IdRun> = answer.into_inner().runs.into_iter().map(run).collect();
        let last = runs.iter().map(|run| family.last_id(run)).max();
        floor = last.or(floor);
        file.write(&runs);
    }
}

/// Writes down as runs what the holder in Python appends to its file of ids.
async fn copy_ids(ids: PathBuf, family: JudgedFamily, mut file: RunWriter) {
    let (mut offset, mut last) = (0, 0);
    let mut before = monotonic_ns();
    loop {
        sleep(RETRY_INTERVAL).await;
        let read_at = monotonic_ns();
        let bytes = read_from(&ids, offset);
        let end = monotonic_ns();
        let (new, _) = bytes.as_chunks::<8>();
        let mut runs: Vec<IdRun> = Vec::new();
        for id in new {
            let begin = before.saturating_sub(PYTHON_BATCH_NS);
            let id = u64::from_le_bytes(*id);
            assert!(id > last, "python: {id} after {last}");
            last = id;
            let run = family.run_of(id, begin, end);
            match runs.last_mut() {
                Some(last) if last.worker == run.worker && last.first + last.count == run.first => {
                    last.count += 1;
                }
                _ => runs.push(run),
            }
        }
        offset += new.len() as u64 * 8;
        before = read_at;
        file.write(&runs);
    }
}

/// Returns the bytes of a file from an offset on; none if there is no file yet.
fn read_from(path: &Path, offset: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(mut file) = File::open(path) {
        file.seek(SeekFrom::Start(offset)).expect("a file");
        file.read_to_end(&mut bytes).expect("a file");
    }
    bytes
}
