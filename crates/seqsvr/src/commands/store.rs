//! `seqsvr store`.

use std::time::Duration;

use anyhow::bail;
use seqsvr_proto::limits::STORE_PORT;
use seqsvr_store::{Options, Store};

use crate::screen::Screen;
use crate::{cli, files, signals};

/// Longest a failed store waits for its parts to end.
const GONE_WITHIN: Duration = Duration::from_secs(3);

pub(crate) async fn run(args: cli::Store) -> anyhow::Result<()> {
    let place = args.place;
    let listen = cli::socket_addr(&place.listen, STORE_PORT)?;
    let mut options = Options::new(place.id, listen, &place.data_dir);
    options.advertise = place.advertise;
    options.connections_max = args.connections.connections_max as usize;
    options.streams_max = args.connections.streams_max;
    options.snapshot_every_entries = args.snapshot_every;
    files::allow(args.connections.connections_max);
    let store = Store::start(options).await?;
    let identity = store.identity();
    let mut screen = Screen::new(&format!("store {}", place.id))
        .fact("address", store.address())
        .fact("data", place.data_dir.display());
    match identity.cluster {
        Some(cluster) => screen = screen.fact("cluster", cluster),
        None => {
            let address = store.address();
            screen = screen
                .fact(
                    "cluster",
                    "none yet: waiting for `seqsvr init` or `seqsvr member add`",
                )
                .security(listen.ip().is_loopback())
                .paste(&[
                    format!(
                        "seqsvr init --stores {}={address}    # a new cluster: all of 1=A,2=B,3=C",
                        place.id
                    ),
                    format!(
                        "seqsvr member add {}={address}    # one more for a cluster there is",
                        place.id
                    ),
                ]);
        }
    }
    if identity.cluster.is_some() {
        screen = screen.security(listen.ip().is_loopback());
    }
    screen.print();
    tokio::select! {
        reason = store.failed() => {
            // What its parts have to say in going comes before the last line. A disk that hangs
            // must not keep the process.
            let _ = tokio::time::timeout(GONE_WITHIN, store.shutdown()).await;
            bail!("{reason}")
        }
        stop = signals::stop() => stop?,
    }
    store.shutdown().await;
    Ok(())
}
