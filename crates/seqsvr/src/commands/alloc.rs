//! `seqsvr alloc`.

use seqsvr_alloc::{Alloc, Options};
use seqsvr_proto::limits::ALLOC_PORT;

use crate::background::Background;
use crate::door_threads::DoorThreads;
use crate::doors::Doors;
use crate::screen::{self, Screen};
use crate::{cli, files, signals};

pub(crate) async fn run(args: cli::Alloc) -> anyhow::Result<()> {
    let listen = cli::socket_addr(&args.listen, ALLOC_PORT)?;
    let mut options = Options::new(&args.name, listen, args.stores.clone());
    options.advertise = args.advertise;
    options.idle_after = args.idle_after;
    options.name_wait = args.name_wait;
    options.state_dir = args.state_dir.clone();
    options.memory_budget = args.memory_mib << 20;
    options.connections_max = args.connections.connections_max as usize;
    options.streams_max = args.connections.streams_max;
    options.waiting_max = args.waiting_max as usize;
    options.items_max = args.items_max as usize;
    options.message_max = (args.message_max_kib << 10) as usize;
    let redis = args
        .doors
        .redis_listen
        .as_ref()
        .map_or(0, |_| args.doors.redis_connections_max);
    let http = args
        .doors
        .http
        .http_listen
        .as_ref()
        .map_or(0, |_| args.doors.http.http_connections_max);
    files::allow(args.connections.connections_max + redis + http);
    let background = Background::start()?;
    let alloc = Alloc::start_in(options, background.environment()).await?;
    let threads = DoorThreads::start()?;
    let doors = Doors::open(&alloc, &threads, &args.doors, args.items_max as usize).await?;
    let address = alloc.local_addr();
    let state = args.state_dir.map_or_else(
        || "none: a restart waits for the old session".to_owned(),
        |dir| dir.display().to_string(),
    );
    let (redis, http) = (doors.redis(), doors.http());
    let all = [Some(listen), redis, http];
    let loopback = all.iter().flatten().all(|at| at.ip().is_loopback());
    let mut paste = vec![
        format!("seqsvr next 42 --server {address}"),
        format!("seqsvr status --server {address}"),
    ];
    let mut screen = Screen::new(&format!("alloc {}", args.name))
        .fact("address", address)
        .fact("stores", args.stores.join(", "))
        .fact("state", state);
    if let Some(redis) = redis {
        screen = screen.fact("redis", redis);
        paste.push(screen::redis_cli(redis));
    }
    if let Some(http) = http {
        screen = screen.fact("http", format!("http://{http}"));
        paste.push(screen::curl(http));
    }
    screen.security(loopback).paste(&paste).print();
    tokio::select! {
        error = alloc.failed() => return Err(error.into()),
        stop = signals::stop() => stop?,
    }
    doors.shutdown().await;
    alloc.shutdown().await;
    Ok(())
}
