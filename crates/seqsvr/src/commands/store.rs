//! `seqsvr store`.

use std::time::Duration;

use anyhow::bail;
use seqsvr_gateway::{STORE_HTTP_PORT, WATCHING_CONNECTIONS};
use seqsvr_proto::limits::STORE_PORT;
use seqsvr_store::{Options, Store};

use crate::doors::Doors;
use crate::screen::Screen;
use crate::{cli, files, signals};

/// Maximum time that a failed store waits for its parts to end.
const GONE_WITHIN: Duration = Duration::from_secs(3);

pub(crate) async fn run(args: cli::Store) -> anyhow::Result<()> {
    let place = args.place;
    let listen = cli::socket_addr(&place.listen, STORE_PORT)?;
    let mut options = Options::new(place.id, listen, &place.data_dir);
    options.advertise = place.advertise;
    options.moved_data_dir = args.moved_data_dir;
    options.connections_max = args.connections.connections_max as usize;
    options.streams_max = args.connections.streams_max;
    options.snapshot_every_entries = args.snapshot_every;
    options.election_min_ms = args.election_timeout_ms;
    options.election_max_ms = 2 * args.election_timeout_ms;
    let watching = args
        .http_listen
        .as_ref()
        .map_or(0, |_| WATCHING_CONNECTIONS);
    files::allow(args.connections.connections_max + watching as u64);
    let store = Store::start(options).await?;
    let doors = match &args.http_listen {
        Some(at) => Doors::of_store(&store, cli::socket_addr(at, STORE_HTTP_PORT)?).await?,
        None => Doors::default(),
    };
    let identity = store.identity();
    let mut screen = Screen::new(&format!("store {}", place.id))
        .fact("address", store.address())
        .fact("data", place.data_dir.display());
    if let Some(http) = doors.http() {
        screen = screen.fact("http", format!("http://{http}"));
    }
    let all = [Some(listen), doors.http()];
    let loopback = all.iter().flatten().all(|at| at.ip().is_loopback());
    match identity.cluster {
        Some(cluster) => screen = screen.fact("cluster", cluster),
        None => {
            let address = store.address();
            screen = screen
                .fact(
                    "cluster",
                    "none yet: waiting for `seqsvr init` or `seqsvr member add`",
                )
                .security(loopback)
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
        screen = screen.security(loopback);
    }
    screen.print();
    tokio::select! {
        reason = store.failed() => {
            // The last messages of its parts come before the last line. A disk that hangs must
            // not block the exit.
            let _ = tokio::time::timeout(GONE_WITHIN, store.shutdown()).await;
            bail!("{reason}")
        }
        stop = signals::stop() => stop?,
    }
    doors.shutdown().await;
    store.shutdown().await;
    Ok(())
}
