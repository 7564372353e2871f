//! `seqsvr alloc`.

use seqsvr_alloc::{Alloc, Options};
use seqsvr_proto::limits::ALLOC_PORT;

use crate::background::Background;
use crate::screen::Screen;
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
    files::allow(args.connections.connections_max);
    let background = Background::start()?;
    let alloc = Alloc::start_in(options, background.environment()).await?;
    let address = alloc.local_addr();
    let state = args.state_dir.map_or_else(
        || "none: a restart waits for the old session".to_owned(),
        |dir| dir.display().to_string(),
    );
    Screen::new(&format!("alloc {}", args.name))
        .fact("address", address)
        .fact("stores", args.stores.join(", "))
        .fact("state", state)
        .security(listen.ip().is_loopback())
        .paste(&[
            format!("seqsvr next 42 --server {address}"),
            format!("seqsvr status --server {address}"),
        ])
        .print();
    tokio::select! {
        error = alloc.failed() => return Err(error.into()),
        stop = signals::stop() => stop?,
    }
    alloc.shutdown().await;
    Ok(())
}
