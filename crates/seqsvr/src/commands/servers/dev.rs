//! `seqsvr dev`: N StoreSvrs and M AllocSvrs in one process, with real loopback gRPC and real
//! disks.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::future::{join, join_all, select_all};
use seqsvr_alloc::{AllocEnvironment, AllocServer};
use seqsvr_client::{Client, ClientOptions};
use seqsvr_core::ids::ClusterId;
use seqsvr_gateway::{
    HTTP_CONNECTIONS_DEFAULT, OPERATOR_CONNECTIONS_MAX, REDIS_CONNECTIONS_DEFAULT,
};
use seqsvr_net::tls::Role;
use seqsvr_net::{ChannelPool, Transport, for_role};
use seqsvr_proto::limits::CONNECTIONS_DEFAULT;
use seqsvr_store::{StoreEnvironment, StoreServer};
use tokio::time::{Instant, sleep};

use super::dev_certificates::DevCertificates;
use super::dev_family;
use super::dev_ports::DevPorts;
use super::init::{self, ClusterSettings, InitialStores};
use crate::cli;
use crate::output::exit_code::BadInput;
use crate::server::background_runtime::BackgroundRuntime;
use crate::server::connection_threads::ConnectionThreads;
use crate::server::core_runtime::{start_lease_runtime, start_store_runtime};
use crate::server::endpoints::Endpoints;
use crate::server::fd_limit::{
    EndpointLimit, ServerParts, endpoint_runtimes, fit_connection_limits,
};
use crate::server::startup_banner::{self, StartupBanner};
use crate::server::tls::ServerTls;
use crate::server::{private_dir, shutdown_signal};

/// Runtimes beside those of the endpoints: Raft, slow path and lease.
const OWN_RUNTIMES: u64 = 3;
/// Maximum time for the stores to create the cluster and elect a leader at the first start.
const INIT_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) async fn run(args: cli::DevArgs) -> anyhow::Result<()> {
    let started = Instant::now();
    let ports = DevPorts::choose(&args)?;
    check_store_count(&args.data_dir, args.stores)?;
    let connections_cap = fit_connections(&args)?;
    let store_dirs = (1..=args.stores).map(|id| format!("store-{id}"));
    let alloc_dirs = (1..=args.allocs).map(|i| format!("alloc-a{i}"));
    for name in store_dirs.chain(alloc_dirs) {
        private_dir::close_dir("--data-dir", &args.data_dir.join(name))?;
    }
    let certificates = DevCertificates::prepare(&args)?;

    let core = start_store_runtime()?;
    let (mut stores, mut store_endpoints) = (Vec::new(), Vec::new());
    for (i, address) in ports.stores.iter().enumerate() {
        let id = i as u64 + 1;
        let data_dir = args.data_dir.join(format!("store-{id}"));
        let options = seqsvr_store::Options {
            moved_data_dir: args.moved_data_dir,
            connections_max: CONNECTIONS_DEFAULT.min(connections_cap as usize),
            security: certificates.stores[i].security(false),
            ..seqsvr_store::Options::new(id, *address, data_dir)
        };
        let environment = StoreEnvironment {
            core: Some(core.clone()),
            transport: certificates.stores[i].transport(),
            ..StoreEnvironment::system()
        };
        let store = StoreServer::start_in(options, environment).await;
        let store = store
            .map_err(|error| match error {
                seqsvr_store::Error::AddressInUse(_) | seqsvr_store::Error::Listen { .. } => {
                    name_port_flag(&error, "--store-port")
                }
                _ => error.into(),
            })
            .with_context(|| format!("store {id}"))?;
        if let Some(Some(at)) = ports.store_http.get(i) {
            let is_required = args.store_http_port.is_some();
            let endpoints =
                Endpoints::open_local_for_store(&store, *at, is_required, connections_cap);
            store_endpoints.push(endpoints.await?);
        }
        stores.push(store);
    }
    let members: BTreeMap<u64, String> = (1..)
        .zip(ports.stores.iter().map(ToString::to_string))
        .collect();
    let members = InitialStores {
        members,
        transport: for_role(&certificates.operator, Role::Store),
    };
    let has_empty_store = stores.iter().any(|s| s.identity().cluster.is_none());
    // The directories of the AllocSvrs may be of an earlier cluster whose stores were deleted.
    let (join_cluster, is_new) = match has_empty_store {
        true => {
            let lease_ms = args.lease_ms.unwrap_or(cli::LEASE_MS_DEFAULT);
            let created = init::create_cluster(&members, lease_ms, 1_024, INIT_TIMEOUT);
            let (cluster, existed) = created.await?;
            if existed && let Some(stores) = init::await_all_joined(&members).await? {
                tracing::warn!(
                    %stores,
                    "a store has lost its directory and has no part in the cluster any more; the others serve while they are more than half; to begin again with all, stop and delete the directory of `--data-dir`"
                );
            }
            (Some(ClusterId(cluster)), !existed)
        }
        false => (None, false),
    };
    if let Some(lease_ms) = args.lease_ms {
        let settings = ClusterSettings {
            lease_ms,
            slots: None,
        };
        settings
            .check(&members, Instant::now() + INIT_TIMEOUT)
            .await?;
    }
    let background = BackgroundRuntime::start()?;
    let lease = start_lease_runtime()?;
    let threads = ConnectionThreads::start()?;
    let (mut allocs, mut alloc_endpoints) = (Vec::new(), Vec::new());
    for (i, address) in ports.allocs.iter().enumerate() {
        let name = format!("a{}", i + 1);
        let options = seqsvr_alloc::Options {
            state_dir: Some(args.data_dir.join(format!("alloc-{name}"))),
            join_cluster,
            connections_max: CONNECTIONS_DEFAULT.min(connections_cap as usize),
            security: certificates.allocs[i].security(false),
            ..seqsvr_alloc::Options::new(
                &name,
                *address,
                members.members.values().cloned().collect(),
            )
        };
        let environment = AllocEnvironment {
            lease: Some(lease.clone()),
            transport: certificates.allocs[i].transport(),
            ..background.environment()
        };
        let alloc = AllocServer::start_in(options, environment).await;
        let alloc = alloc.map_err(|error| match error {
            seqsvr_alloc::Error::Listen { .. } => name_port_flag(&error, "--port"),
            _ => error.into(),
        })?;
        let mut endpoints = Endpoints::default();
        if let Some(Some(at)) = ports.redis.get(i) {
            endpoints
                .open_redis(
                    &alloc,
                    &threads,
                    *at,
                    args.redis_port.is_some(),
                    connections_cap,
                )
                .await?;
        }
        if let Some(Some(at)) = ports.http.get(i) {
            endpoints
                .open_http(
                    &alloc,
                    &threads,
                    *at,
                    args.http_port.is_some(),
                    connections_cap,
                )
                .await?;
        }
        alloc_endpoints.push(endpoints);
        allocs.push(alloc);
    }

    let join_addrs = |addrs: &[SocketAddr]| {
        addrs
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let server_flag = if args.port == seqsvr_proto::limits::ALLOC_PORT {
        String::new()
    } else {
        format!(" --server {}", ports.allocs[0])
    };
    let redis_endpoints: Vec<SocketAddr> = alloc_endpoints
        .iter()
        .filter_map(Endpoints::redis_addr)
        .collect();
    let [client, admin] = [Role::Client, Role::Admin].map(|role| certificates.flag(role));
    let mut commands = vec![
        format!("seqsvr next 42{server_flag}{client}"),
        format!("seqsvr next alice{server_flag}{client}"),
        format!("seqsvr current 42{server_flag}{client}"),
        format!("seqsvr id next{server_flag}{client}"),
        format!("seqsvr status{server_flag}{admin}"),
    ];
    let mut banner = StartupBanner::new("dev").with_fact("allocs", join_addrs(&ports.allocs));
    if let Some(first) = redis_endpoints.first() {
        banner = banner.with_fact("redis", join_addrs(&redis_endpoints));
        commands.push(startup_banner::redis_command(*first));
    }
    let http_endpoints: Vec<SocketAddr> = alloc_endpoints
        .iter()
        .filter_map(Endpoints::http_addr)
        .collect();
    if let Some(first) = http_endpoints.first() {
        banner = banner.with_fact("http", join_addrs(&http_endpoints));
        commands.push(startup_banner::curl_command(*first));
    }
    banner = banner.with_fact("stores", join_addrs(&ports.stores));
    let store_http_endpoints: Vec<SocketAddr> = store_endpoints
        .iter()
        .filter_map(Endpoints::http_addr)
        .collect();
    if !store_http_endpoints.is_empty() {
        banner = banner.with_fact(
            "metrics",
            join_addrs(&[http_endpoints, store_http_endpoints].concat()),
        );
    }
    let banner = banner.with_fact(
        "data",
        format!(
            "{} ({})",
            args.data_dir.display(),
            if is_new { "new" } else { "found" }
        ),
    );
    let banner = match certificates.describe() {
        Some(security) => banner.with_fact("security", security),
        None => banner.with_security(false, &ServerTls::none()),
    };
    banner.with_commands(&commands).print();
    certificates.start_expiry_warnings();

    let ready = announce_ready(
        certificates.operator.clone(),
        ports.allocs.iter().map(ToString::to_string).collect(),
        &stores,
        &allocs,
        started,
    );
    let store_failed = select_all(stores.iter().map(|s| Box::pin(s.wait_for_failure())));
    let alloc_failed = select_all(allocs.iter().map(|a| Box::pin(a.failed())));
    let outcome = tokio::select! {
        biased;
        (reason, ..) = store_failed => Err(anyhow::anyhow!("a store stopped: {reason}")),
        (error, ..) = alloc_failed => Err(error.into()),
        stop = shutdown_signal::wait_for_shutdown_signal() => stop.map_err(Into::into),
        never = ready => never,
    };
    let endpoints = alloc_endpoints.iter().chain(&store_endpoints);
    join_all(endpoints.map(Endpoints::shutdown)).await;
    join_all(allocs.iter().map(AllocServer::shutdown)).await;
    join_all(stores.iter().map(StoreServer::shutdown)).await;
    if outcome.is_ok() {
        tracing::info!("stopped");
    }
    outcome
}

/// Returns the error of an address that cannot be used, with the flag that `dev` has for it.
fn name_port_flag(error: &dyn std::error::Error, flag: &str) -> anyhow::Error {
    anyhow::anyhow!("{}", error.to_string().replace("--listen", flag))
}

/// Returns the highest limit of connections that fits for each endpoint of all servers.
///
/// # Errors
/// This process may open too few files.
fn fit_connections(args: &cli::DevArgs) -> Result<u64, BadInput> {
    let limits = |name: &'static str, servers: u64, connections_max: usize| {
        (0..servers).map(move |_| EndpointLimit {
            name,
            connections_max: connections_max as u64,
        })
    };
    let (stores, allocs) = (args.stores, args.allocs);
    let endpoints = limits("StoreSvr", stores, CONNECTIONS_DEFAULT)
        .chain(limits("metrics", stores, OPERATOR_CONNECTIONS_MAX))
        .chain(limits("AllocSvr", allocs, CONNECTIONS_DEFAULT))
        .chain(limits("Redis", allocs, REDIS_CONNECTIONS_DEFAULT))
        .chain(limits("HTTP", allocs, HTTP_CONNECTIONS_DEFAULT));
    let parts = ServerParts {
        stores,
        allocs,
        runtimes: OWN_RUNTIMES + endpoint_runtimes(),
    };
    fit_connection_limits(parts, &endpoints.collect::<Vec<_>>())
}

/// Prints a line when all AllocSvrs serve numbers and ids; then waits without end.
async fn announce_ready(
    transport: Arc<dyn Transport>,
    servers: Vec<String>,
    stores: &[StoreServer],
    allocs: &[AllocServer],
    started: Instant,
) -> anyhow::Result<()> {
    let channels = ChannelPool::with_transport(transport);
    let client = Client::over(channels, ClientOptions::new(servers))?;
    join(
        await_leases(&client, allocs),
        dev_family::prepare(&client, stores),
    )
    .await;
    startup_banner::print_or_log(format_args!(
        "ready after {:.1} s",
        started.elapsed().as_secs_f64()
    ));
    std::future::pending().await
}

/// Waits until all AllocSvrs serve numbers.
async fn await_leases(client: &Client, allocs: &[AllocServer]) {
    let admin = client.admin();
    loop {
        // Sessions of an earlier run are listed until they expire, so all must have renewed.
        if let Ok(status) = admin.cluster_status().await
            && status.free_slots == 0
            && status.sessions.len() == allocs.len()
            && status
                .sessions
                .iter()
                .all(|s| s.last_renewal_age_ms.is_some())
            && allocs.iter().all(AllocServer::has_lease)
        {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Checks that a data directory has as many stores as when it was created.
fn check_store_count(data_dir: &Path, stores: u64) -> anyhow::Result<()> {
    let found = (1..=7)
        .filter(|id| data_dir.join(format!("store-{id}")).exists())
        .count() as u64;
    if found != 0 && found != stores {
        bail!(BadInput(format!(
            "{} was created with {found} stores, not {stores}; run `seqsvr dev --stores {found}` or choose another --data-dir",
            data_dir.display()
        )));
    }
    Ok(())
}
