//! `seqsvr dev`: N StoreSvrs and M AllocSvrs in one process, with real loopback gRPC and real
//! disks.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::future::{join_all, select_all};
use seqsvr_alloc::Alloc;
use seqsvr_client::{Client, Options};
use seqsvr_gateway::{HTTP_PORT, REDIS_PORT, STORE_HTTP_PORT};
use seqsvr_store::Store;
use tokio::time::{Instant, sleep};

use super::init;
use crate::background::Background;
use crate::door_threads::DoorThreads;
use crate::doors::Doors;
use crate::exit::BadInput;
use crate::screen::{self, Screen};
use crate::{cli, signals};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Maximum time for the stores to create the cluster and elect a leader at the first start.
const INIT_WAIT: Duration = Duration::from_secs(20);

pub(crate) async fn run(args: cli::Dev) -> anyhow::Result<()> {
    let started = Instant::now();
    let ports = |first: u16, n: u64, flag: &str| -> Result<Vec<SocketAddr>, BadInput> {
        (0..n)
            .map(|i| {
                u16::try_from(u64::from(first) + i).map(|port| SocketAddr::new(LOOPBACK, port))
            })
            .collect::<Result<_, _>>()
            .map_err(|_| BadInput(format!("{flag} {first} leaves no room for {n} ports")))
    };
    let store_addrs = ports(args.store_port, args.stores, "--store-port")?;
    let alloc_addrs = ports(args.port, args.allocs, "--port")?;
    let redis_addrs = match args.redis_port {
        Some(0) => Vec::new(),
        first => ports(first.unwrap_or(REDIS_PORT), args.allocs, "--redis-port")?,
    };
    let http_addrs = match args.http_port {
        Some(0) => Vec::new(),
        first => ports(first.unwrap_or(HTTP_PORT), args.allocs, "--http-port")?,
    };
    let store_http_addrs = match args.store_http_port {
        Some(0) => Vec::new(),
        first => ports(
            first.unwrap_or(STORE_HTTP_PORT),
            args.stores,
            "--store-http-port",
        )?,
    };
    check_count(&args.data_dir, args.stores)?;

    let (mut stores, mut store_doors) = (Vec::new(), Vec::new());
    for (i, address) in store_addrs.iter().enumerate() {
        let id = i as u64 + 1;
        let data_dir = args.data_dir.join(format!("store-{id}"));
        let options = seqsvr_store::Options {
            moved_data_dir: args.moved_data_dir,
            ..seqsvr_store::Options::new(id, *address, data_dir)
        };
        let store = Store::start(options)
            .await
            .with_context(|| format!("store {id}"))?;
        if let Some(at) = store_http_addrs.get(i) {
            let must = args.store_http_port.is_some();
            store_doors.push(Doors::of_store_at(&store, *at, must).await?);
        }
        stores.push(store);
    }
    let members: BTreeMap<u64, String> = (1..)
        .zip(store_addrs.iter().map(ToString::to_string))
        .collect();
    let fresh = stores.iter().any(|s| s.identity().cluster.is_none());
    if fresh {
        init::make(&members, args.lease_ms, 1_024, INIT_WAIT).await?;
    }
    let background = Background::start()?;
    let threads = DoorThreads::start()?;
    let (mut allocs, mut doors) = (Vec::new(), Vec::new());
    for (i, address) in alloc_addrs.iter().enumerate() {
        let name = format!("a{}", i + 1);
        let options = seqsvr_alloc::Options {
            state_dir: Some(args.data_dir.join(format!("alloc-{name}"))),
            ..seqsvr_alloc::Options::new(&name, *address, members.values().cloned().collect())
        };
        let alloc = Alloc::start_in(options, background.environment()).await?;
        let mut open = Doors::default();
        if let Some(at) = redis_addrs.get(i) {
            open.redis_at(&alloc, &threads, *at, args.redis_port.is_some())
                .await?;
        }
        if let Some(at) = http_addrs.get(i) {
            open.http_at(&alloc, &threads, *at, args.http_port.is_some())
                .await?;
        }
        doors.push(open);
        allocs.push(alloc);
    }

    let list = |addrs: &[SocketAddr]| {
        addrs
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let server = if args.port == seqsvr_proto::limits::ALLOC_PORT {
        String::new()
    } else {
        format!(" --server {}", alloc_addrs[0])
    };
    let redis: Vec<SocketAddr> = doors.iter().filter_map(Doors::redis).collect();
    let mut paste = vec![
        format!("seqsvr next 42{server}"),
        format!("seqsvr next alice{server}"),
        format!("seqsvr current 42{server}"),
        format!("seqsvr status{server}"),
    ];
    let mut screen = Screen::new("dev").fact("allocs", list(&alloc_addrs));
    if let Some(first) = redis.first() {
        screen = screen.fact("redis", list(&redis));
        paste.push(screen::redis_cli(*first));
    }
    let http: Vec<SocketAddr> = doors.iter().filter_map(Doors::http).collect();
    if let Some(first) = http.first() {
        screen = screen.fact("http", list(&http));
        paste.push(screen::curl(*first));
    }
    screen = screen.fact("stores", list(&store_addrs));
    let watched: Vec<SocketAddr> = store_doors.iter().filter_map(Doors::http).collect();
    if !watched.is_empty() {
        screen = screen.fact("metrics", list(&[http, watched].concat()));
    }
    screen
        .fact(
            "data",
            format!(
                "{} ({})",
                args.data_dir.display(),
                if fresh { "new" } else { "found" }
            ),
        )
        .security(true)
        .paste(&paste)
        .print();

    let ready = announce(
        alloc_addrs.iter().map(ToString::to_string).collect(),
        &allocs,
        started,
    );
    let store_failed = select_all(stores.iter().map(|s| Box::pin(s.failed())));
    let alloc_failed = select_all(allocs.iter().map(|a| Box::pin(a.failed())));
    let outcome = tokio::select! {
        biased;
        (reason, ..) = store_failed => Err(anyhow::anyhow!("a store stopped: {reason}")),
        (error, ..) = alloc_failed => Err(anyhow::Error::from(error)),
        stop = signals::stop() => stop.map_err(Into::into),
        never = ready => never,
    };
    let doors = doors.iter().chain(&store_doors);
    join_all(doors.map(Doors::shutdown)).await;
    join_all(allocs.iter().map(Alloc::shutdown)).await;
    join_all(stores.iter().map(Store::shutdown)).await;
    outcome
}

/// Prints a line when all AllocSvrs serve numbers; then waits without end.
async fn announce(servers: Vec<String>, allocs: &[Alloc], started: Instant) -> anyhow::Result<()> {
    let admin = Client::new(Options::new(servers))?.admin();
    loop {
        // Sessions of an earlier run are listed until they expire, so all must have renewed.
        if let Ok(status) = admin.cluster_status().await
            && status.free_slots == 0
            && status.sessions.len() == allocs.len()
            && status.sessions.iter().all(|s| s.renewed_ms_ago.is_some())
            && allocs.iter().all(Alloc::has_lease)
        {
            screen::say(format_args!(
                "ready after {:.1} s",
                started.elapsed().as_secs_f64()
            ));
            return std::future::pending().await;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Checks that a data directory has as many stores as when it was created.
fn check_count(data_dir: &Path, stores: u64) -> anyhow::Result<()> {
    let found = (1..=7)
        .filter(|id| data_dir.join(format!("store-{id}")).exists())
        .count() as u64;
    if found != 0 && found != stores {
        bail!(BadInput(format!(
            "{} was made with {found} stores, not {stores}; run `seqsvr dev --stores {found}` or choose another --data-dir",
            data_dir.display()
        )));
    }
    Ok(())
}
