//! `seqsvr bench`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use seqsvr_check::Recorder;
use seqsvr_core::namespace::{DEFAULT, KEYS};
use seqsvr_proto::cluster_tag::ClusterTag;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::server::Session;
use crate::bench::caller::{Asker, Caller};
use crate::bench::checker::{Asked, Checker, Run};
use crate::bench::effort::Effort;
use crate::bench::figures::Figures;
use crate::bench::keys::Keys;
use crate::bench::pace::Pace;
use crate::bench::piper::Piper;
use crate::bench::plain::Plain;
use crate::bench::report::{Report, grouped, time};
use crate::bench::verify::Verifier;
use crate::exit::BadInput;
use crate::{cli, log, out};

/// Default number of items of a NextMany or a frame.
const BATCH: u32 = 100;
/// Number of statistics that callers share. Several ones keep waits for their locks rare; each
/// takes 200 KiB.
const FIGURES: usize = 16;

/// Callers that share a task, so that all callers that one frame answers continue together. With
/// one task for each caller, 1,024 single calls in flight on four connections had a third less
/// throughput.
const OF_TASK: usize = 16;
/// Maximum time to discard calls that were in flight at the end of the warm-up.
const SETTLED: Duration = Duration::from_millis(20);

pub(crate) async fn run(args: cli::Bench) -> anyhow::Result<()> {
    let batch = batch(&args)?;
    let namespaces = match (args.namespaces.is_empty(), args.key_bytes) {
        (false, _) => args.namespaces.clone(),
        (true, None) => vec![DEFAULT.to_owned()],
        (true, Some(_)) => vec![KEYS.to_owned()],
    };
    let all = u32::try_from(namespaces.len() as u64 * u64::from(args.keys)).map_err(|_| {
        BadInput("more than 2^32 keys in all: give less, or fewer namespaces".into())
    })?;
    let sessions: Vec<Session> = (0..args.connections)
        .map(|_| Session::open(&args.server))
        .collect::<Result<_, _>>()?;
    let admin = sessions[0].client.admin();
    let known = admin.list_namespaces().await?;
    if let Some(unknown) = namespaces
        .iter()
        .find(|n| known.iter().all(|k| k.spec.name != **n))
    {
        let names: Vec<&str> = known.iter().map(|k| k.spec.name.as_str()).collect();
        let text = format!(
            "there is no namespace {unknown:?}; there are {}: make it with `seqsvr namespace create`",
            names.join(", ")
        );
        return Err(BadInput(text).into());
    }
    let strides = known
        .iter()
        .map(|k| (k.spec.name.clone(), k.spec.progression.stride));
    // Callers without the SDK check that the answers are from this cluster.
    let cluster = ClusterTag::of(sessions[0].client.routes().await?.cluster());
    let askers = askers(&args, &sessions, strides.collect(), cluster)?;
    let recorder = args.history.as_ref().map(Recorder::create).transpose()?;
    let run = Arc::new(Run {
        mode: args.mode,
        batch,
        count: args.count,
        keys: Keys::new(args.keys, args.distribution, args.key_bytes, namespaces),
        pace: Pace::new(args.warm_up + args.duration, args.rate),
        verifier: Verifier::new(all, args.in_flight as usize),
        wrong: Mutex::default(),
        mismatch: Mutex::default(),
        origin: Instant::now(),
    });
    let figures = (0..FIGURES).map(|_| Mutex::new(Figures::new()));
    let figures: Arc<Vec<_>> = Arc::new(figures.collect());
    let checker = || Checker {
        run: run.clone(),
        figures: figures.clone(),
        recorder: recorder.clone(),
    };
    let rng = || SmallRng::from_rng(&mut rand::rng());
    let mut callers = JoinSet::new();
    let mut first = 0;
    for (n, asker) in (0..).zip(askers) {
        let share =
            args.in_flight / args.connections + u32::from(n < args.in_flight % args.connections);
        let share = first..first + share as usize;
        first = share.end;
        match asker {
            By::Frames(plain) => {
                let piper = Piper::new(checker(), plain, rng(), share.start, share.len());
                callers.spawn(piper.run());
            }
            By::Calls(asker) => {
                let all = share.map(|number| Caller {
                    checker: checker(),
                    asker: asker.clone(),
                    number,
                    rng: rng(),
                    asked: Asked::default(),
                });
                let mut all = all.map(Caller::run).peekable();
                while all.peek().is_some() {
                    let mut some: FuturesUnordered<_> = all.by_ref().take(OF_TASK).collect();
                    callers.spawn(async move {
                        while let Some(ended) = some.next().await {
                            ended?;
                        }
                        Ok(())
                    });
                }
            }
        }
    }
    let measured = measure(&args, &run, &figures, &admin, &mut callers).await?;
    drop(sessions);
    if let Some(recorder) = recorder {
        let calls = recorder.finish()?;
        log::say(format_args!("{} items recorded", grouped(calls)));
    }
    let wrong = run.wrong.lock();
    if !wrong.is_empty() {
        let told = wrong.join("\n  ");
        bail!("what was received is wrong, so nothing was measured:\n  {told}");
    }
    if let Some(error) = run.mismatch.lock().take() {
        return Err(error.into());
    }
    if measured.figures.calls == 0 {
        let errors = measured.figures.errors.into_values().next();
        let why = errors.map_or_else(String::new, |failures| format!(": {}", failures.first));
        bail!("no call was answered{why}");
    }
    match args.json {
        true => out::line(measured.json(&args, batch))?,
        false => measured.print(&args, batch)?,
    }
    Ok(())
}

/// How the callers of a connection send their calls.
enum By {
    /// Each caller sends its own calls.
    Calls(Asker),
    /// One Pipe carries the calls of all callers as frames.
    Frames(Plain),
}

/// Creates one client for each connection.
fn askers(
    args: &cli::Bench,
    sessions: &[Session],
    strides: HashMap<String, u32>,
    cluster: ClusterTag,
) -> anyhow::Result<Vec<By>> {
    if args.unary && args.mode == cli::Mode::Pipe {
        return Err(BadInput("--mode pipe sends frames, so it cannot be --unary".into()).into());
    }
    let (servers, strides) = (args.server.addresses(), Arc::new(strides));
    let plain = |server: &str| Plain::new(server, strides.clone(), args.server.timeout, cluster);
    let each = sessions.iter().zip(servers.iter().cycle());
    let asker = |(session, server): (&Session, &&str)| match (args.mode, args.unary) {
        (cli::Mode::Pipe, _) => Ok(By::Frames(plain(server)?)),
        (_, true) => Ok(By::Calls(Asker::Unary(plain(server)?))),
        (_, false) => Ok(By::Calls(Asker::Sdk(session.client.clone()))),
    };
    each.map(asker).collect()
}

/// Returns the number of items of a call.
fn batch(args: &cli::Bench) -> Result<u32, BadInput> {
    match (args.mode, args.batch) {
        (cli::Mode::Next, Some(n)) if n > 1 => Err(BadInput(
            "--batch is for --mode next-many, pipe or current; --count takes several numbers of one key"
                .into(),
        )),
        (cli::Mode::NextMany | cli::Mode::Pipe, batch) => Ok(batch.unwrap_or(BATCH)),
        (_, batch) => Ok(batch.unwrap_or(1)),
    }
}

/// Waits until the callers end and prints a progress line every second. Returns the result of the
/// time after the warm-up.
async fn measure(
    args: &cli::Bench,
    run: &Run,
    figures: &[Mutex<Figures>],
    admin: &seqsvr_client::Admin,
    callers: &mut JoinSet<Result<(), seqsvr_check::Error>>,
) -> anyhow::Result<Report> {
    let began = Instant::now();
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut sum = Figures::new();
    let mut from = began;
    let mut before = Effort::now(admin).await?;
    let mut warm = args.warm_up.is_zero();
    let mut told = began;
    loop {
        let warmed = tokio::time::sleep_until(began + args.warm_up);
        tokio::select! {
            () = warmed, if !warm => {
                Figures::drain(figures);
                before = Effort::now(admin).await?;
                // Calls in flight at the end of the warm-up belong to neither part.
                settle(figures, args.in_flight.into()).await;
                from = Instant::now();
                told = from;
                ticks.reset();
                warm = true;
            }
            _ = ticks.tick() => {
                let lately = Figures::drain(figures);
                tell(began, told, &lately, !warm);
                told = Instant::now();
                if warm {
                    sum.add(&lately);
                }
            }
            ended = callers.join_next() => match ended {
                Some(Ok(ended)) => ended?,
                Some(Err(error)) => bail!("a caller ended: {error}"),
                None => break,
            }
        }
    }
    let time = from.elapsed();
    sum.add(&Figures::drain(figures));
    let effort = Effort::now(admin).await?.since(before);
    if run.pace.is_stopped() {
        log::say(format_args!("ended early"));
    }
    Ok(Report {
        time,
        figures: sum,
        effort,
    })
}

/// Discards statistics until as many calls were answered as are in flight at a time, or until a
/// short time has passed.
async fn settle(figures: &[Mutex<Figures>], in_flight: u64) {
    let (began, mut answered) = (Instant::now(), 0);
    while answered < in_flight && began.elapsed() < SETTLED {
        tokio::time::sleep(Duration::from_millis(1)).await;
        answered += Figures::drain(figures).calls;
    }
}

fn tell(began: Instant, told: Instant, lately: &Figures, warming: bool) {
    let seconds = told.elapsed().as_secs_f64();
    log::say(format_args!(
        "{:>4.0} s  {} calls a second  {} numbers a second  p99 {}  {} failed{}",
        began.elapsed().as_secs_f64(),
        grouped((lately.calls as f64 / seconds) as u64),
        grouped((lately.numbers as f64 / seconds) as u64),
        time(lately.latency.value_at_percentile(99.0)),
        grouped(lately.failures()),
        if warming { "  (warm-up)" } else { "" }
    ));
}
