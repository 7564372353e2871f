//! `seqsvr alloc`.

use std::sync::Arc;

use seqsvr_alloc::{Alloc, Options, SystemClock};
use seqsvr_proto::limits::ALLOC_PORT;

use crate::screen::Screen;
use crate::{cli, signals};

pub(crate) async fn run(args: cli::Alloc) -> anyhow::Result<()> {
    let listen = cli::socket_addr(&args.listen, ALLOC_PORT)?;
    let mut options = Options::new(&args.name, listen, args.stores.clone());
    options.advertise = args.advertise;
    options.idle_after = args.idle_after;
    options.memory_budget = args.memory_mib << 20;
    let alloc = Alloc::start(options, Arc::new(SystemClock)).await?;
    let address = alloc.local_addr();
    Screen::new(&format!("alloc {}", args.name))
        .fact("address", address)
        .fact("stores", args.stores.join(", "))
        .fact("data", "none: stateless")
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
