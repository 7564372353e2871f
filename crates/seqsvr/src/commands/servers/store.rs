//! `seqsvr store`.

use std::time::Duration;

use anyhow::bail;
use seqsvr_access::Access;
use seqsvr_net::tls::Role;
use seqsvr_proto::limits::STORE_PORT;
use seqsvr_store::{Options, StoreEnvironment, StoreServer};

use crate::cli;
use crate::server::core_runtime::start_store_runtime;
use crate::server::endpoints::{EndpointAddresses, Endpoints};
use crate::server::fd_limit::{EndpointLimit, ServerParts, fit_connection_limits};
use crate::server::insecure_warning::start_insecure_warnings;
use crate::server::listen_rules::{ListenAddress, ListenRules};
use crate::server::startup_banner::StartupBanner;
use crate::server::tls::{self, ServerTls};
use crate::server::{private_dir, shutdown_signal};

/// Maximum time that a failed store waits for its parts to end.
const FAILED_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

pub(crate) async fn run(args: cli::StoreArgs) -> anyhow::Result<()> {
    let identity_args = args.identity;
    let listen = ListenAddress::resolve("--listen", &identity_args.listen, STORE_PORT)?;
    let name = &identity_args.listen;
    let has_tls = args.tls_dir.is_some();
    let advertise = tls::advertised_name(identity_args.advertise, name, has_tls);
    let tls = ServerTls::read(
        args.tls_dir.as_deref(),
        args.insecure,
        Role::Store,
        None,
        advertise.as_ref().unwrap_or(name),
    )?;
    let addresses = EndpointAddresses::resolve_for_store(&args.http, &tls)?;
    let listen = listen.under_tls(tls.is_on());
    let rules = ListenRules {
        server: "StoreSvr",
        is_insecure: args.insecure,
    };
    rules.check([listen].into_iter().chain(addresses.all()))?;
    let connections_max = args.connection_limits.connections_max;
    let mut endpoint_limits = addresses.operator_limits();
    endpoint_limits.push(EndpointLimit {
        name: "--connections-max",
        connections_max,
    });
    let parts = ServerParts {
        stores: 1,
        allocs: 0,
        runtimes: 1,
    };
    let connections_cap = fit_connection_limits(parts, &endpoint_limits)?;
    private_dir::close_dir("--data-dir", &identity_args.data_dir)?;
    let mut options = Options::new(identity_args.id, listen.address(), &identity_args.data_dir);
    options.advertise_address = advertise;
    options.security = tls.security(args.insecure);
    options.moved_data_dir = args.moved_data_dir;
    options.connections_max = connections_max.min(connections_cap) as usize;
    options.streams_max = args.connection_limits.streams_max;
    options.snapshot_interval_entries = args.snapshot_interval_entries;
    options.election_min_ms = args.election_timeout_ms;
    options.election_max_ms = 2 * args.election_timeout_ms;
    let environment = StoreEnvironment {
        core: Some(start_store_runtime()?),
        transport: tls.transport(),
        ..StoreEnvironment::system()
    };
    let store = StoreServer::start_in(options, environment).await?;
    let networks = tls.endpoint_networks(&Access::by_role());
    let endpoints =
        Endpoints::open_for_store(&store, &args.http, addresses, &networks, connections_cap)
            .await?;
    let bound_endpoints = endpoints.bound_addresses(addresses);
    rules.check(
        [listen.with_bound(store.local_addr())]
            .into_iter()
            .chain(bound_endpoints),
    )?;
    let identity = store.identity();
    let mut banner = StartupBanner::new(&format!("store {}", identity_args.id))
        .with_fact("address", store.advertise_address())
        .with_fact("data", identity_args.data_dir.display());
    if let Some(http) = endpoints.http_addr() {
        banner = banner.with_fact("http", addresses.http_url(http));
    }
    if let Some(metrics) = endpoints.metrics_addr() {
        banner = banner.with_fact("metrics", addresses.metrics_url(metrics));
    }
    match identity.cluster {
        Some(cluster) => banner = banner.with_fact("cluster", cluster),
        None => {
            let address = store.advertise_address();
            let tls_flag = tls.command_flag();
            banner = banner
                .with_fact(
                    "cluster",
                    "none yet: waiting for `seqsvr init` or `seqsvr member add`",
                )
                .with_security(args.insecure, &tls)
                .with_commands(&[
                    format!(
                        "seqsvr init --stores {}={address}{tls_flag}    # a new cluster; list all its stores: 1=A,2=B,3=C",
                        identity_args.id
                    ),
                    format!(
                        "seqsvr member add {}={address}{tls_flag}    # or join an existing cluster",
                        identity_args.id
                    ),
                ]);
        }
    }
    if identity.cluster.is_some() {
        banner = banner.with_security(args.insecure, &tls);
    }
    banner.print();
    tls.start_expiry_warnings();
    if args.insecure {
        start_insecure_warnings();
    }
    tokio::select! {
        reason = store.wait_for_failure() => {
            // The last messages of its parts come before the last line. A disk that hangs must
            // not block the exit.
            let _ = tokio::time::timeout(FAILED_SHUTDOWN_TIMEOUT, store.shutdown()).await;
            bail!("{reason}")
        }
        stop = shutdown_signal::wait_for_shutdown_signal() => stop?,
    }
    endpoints.shutdown().await;
    store.shutdown().await;
    tracing::info!("stopped");
    Ok(())
}
