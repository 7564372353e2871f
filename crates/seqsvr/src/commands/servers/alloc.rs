//! `seqsvr alloc`.

use std::path::Path;

use seqsvr_access::Access;
use seqsvr_alloc::{AllocEnvironment, AllocServer, Options};
use seqsvr_core::server_address::find_host;
use seqsvr_net::tls::Role;
use seqsvr_proto::limits::ALLOC_PORT;

use crate::cli;
use crate::commands::security::auth;
use crate::output::exit_code::BadInput;
use crate::server::background_runtime::BackgroundRuntime;
use crate::server::connection_threads::ConnectionThreads;
use crate::server::core_runtime::start_lease_runtime;
use crate::server::endpoints::{EndpointAddresses, Endpoints};
use crate::server::fd_limit::{
    EndpointLimit, ServerParts, endpoint_runtimes, fit_connection_limits,
};
use crate::server::insecure_warning::start_insecure_warnings;
use crate::server::listen_rules::{ListenAddress, ListenRules};
use crate::server::startup_banner::{self, StartupBanner, TlsCommands};
use crate::server::tls::{self, ServerTls};
use crate::server::{private_dir, shutdown_signal};

/// Runtimes beside those of the endpoints: slow path and lease.
const OWN_RUNTIMES: u64 = 2;

pub(crate) async fn run(args: cli::AllocArgs) -> anyhow::Result<()> {
    let listen = ListenAddress::resolve("--listen", &args.listen, ALLOC_PORT)?;
    let has_tls = args.tls_dir.is_some();
    let advertise = tls::advertised_name(args.advertise, &args.listen, has_tls);
    let tls = ServerTls::read(
        args.tls_dir.as_deref(),
        args.insecure,
        Role::Alloc,
        Some(&args.name),
        advertise.as_ref().unwrap_or(&args.listen),
    )?;
    let endpoint_addresses =
        EndpointAddresses::resolve(&args.endpoints, &tls, args.auth_file.is_some())?;
    let (access, callers) = read_access(args.auth_file.as_deref(), tls.is_on())?;
    let host = find_host(advertise.as_ref().unwrap_or(&args.listen)).to_owned();
    let listen = listen.under_tls(tls.is_on());
    let rules = ListenRules {
        server: "AllocSvr",
        is_insecure: args.insecure,
    };
    rules.check([listen].into_iter().chain(endpoint_addresses.all()))?;
    let connections_max = args.connection_limits.connections_max;
    let mut endpoint_limits = endpoint_addresses.limits(&args.endpoints);
    endpoint_limits.push(EndpointLimit {
        name: "--connections-max",
        connections_max,
    });
    let parts = ServerParts {
        stores: 0,
        allocs: 1,
        runtimes: OWN_RUNTIMES + endpoint_runtimes(),
    };
    let connections_cap = fit_connection_limits(parts, &endpoint_limits)?;
    if let Some(dir) = &args.state_dir {
        private_dir::close_dir("--state-dir", dir)?;
    }
    let mut options = Options::new(&args.name, listen.address(), args.stores.clone());
    options.advertise = advertise;
    options.access = access.clone();
    options.security = tls.security(args.insecure);
    options.section_idle_timeout = args.section_idle_timeout;
    options.name_conflict_timeout = args.name_conflict_timeout;
    options.state_dir = args.state_dir.clone();
    options.join_cluster = args.join_cluster;
    options.memory_budget = args.section_memory_mib << 20;
    options.connections_max = connections_max.min(connections_cap) as usize;
    options.streams_max = args.connection_limits.streams_max;
    options.queued_items_max = args.queued_items_max as usize;
    options.batch_items_max = args.batch_items_max as usize;
    options.message_max = (args.message_max_kib << 10) as usize;
    let background = BackgroundRuntime::start()?;
    let environment = AllocEnvironment {
        lease: Some(start_lease_runtime()?),
        transport: tls.transport_of(&access),
        ..background.environment()
    };
    let alloc = AllocServer::start_in(options, environment).await?;
    let threads = ConnectionThreads::start()?;
    let endpoints = Endpoints::open_configured(
        &alloc,
        &threads,
        &args.endpoints,
        endpoint_addresses,
        &tls.endpoint_networks(&access),
        args.batch_items_max as usize,
        connections_cap,
    )
    .await?;
    let address = alloc.local_addr();
    let bound_endpoints = endpoints.bound_addresses(endpoint_addresses);
    rules.check(
        [listen.with_bound(address)]
            .into_iter()
            .chain(bound_endpoints),
    )?;
    let state_dir = args.state_dir.map_or_else(
        || "none: a restarted process waits until the old session expires".to_owned(),
        |dir| dir.display().to_string(),
    );
    let (redis, http) = (endpoints.redis_addr(), endpoints.http_addr());
    let metrics = endpoints.metrics_addr();
    let tls_flag = tls.command_flag();
    let tls_commands = tls.is_on().then_some(TlsCommands {
        host: &host,
        has_principals: access.has_principals(),
    });
    let mut commands = vec![
        format!("seqsvr next 42 --server {address}{tls_flag}"),
        format!("seqsvr status --server {address}{tls_flag}"),
    ];
    let mut banner = StartupBanner::new(&format!("alloc {}", args.name))
        .with_fact("address", address)
        .with_fact("stores", args.stores.join(", "))
        .with_fact("state", state_dir);
    if let Some(callers) = callers {
        banner = banner.with_fact("callers", callers);
    }
    if let Some(redis) = redis {
        banner = banner.with_fact("redis", redis);
        commands.push(match &tls_commands {
            Some(tls) if endpoint_addresses.has_redis_tls() => tls.redis(redis.port()),
            _ => startup_banner::redis_command(redis),
        });
    }
    if let Some(http) = http {
        banner = banner.with_fact("http", endpoint_addresses.http_url(http));
        commands.push(match &tls_commands {
            Some(tls) if endpoint_addresses.has_http_tls() => tls.curl(http.port()),
            _ => startup_banner::curl_command(http),
        });
    }
    if let Some(metrics) = metrics {
        banner = banner.with_fact("metrics", endpoint_addresses.metrics_url(metrics));
    }
    banner
        .with_security(args.insecure, &tls)
        .with_commands(&commands)
        .print();
    tls.start_expiry_warnings();
    if args.insecure {
        start_insecure_warnings();
    }
    tokio::select! {
        error = alloc.failed() => return Err(error.into()),
        stop = shutdown_signal::wait_for_shutdown_signal() => stop?,
    }
    endpoints.shutdown().await;
    alloc.shutdown().await;
    tracing::info!("stopped");
    Ok(())
}

/// Returns the judge of callers, by the file of `--auth-file` if there is one, and a summary of it.
///
/// Invariant: a server with principals has TLS. Schedule that breaks it: without TLS, each program
/// of the host is an operator, whom the file would not stop, and a token may be read on its way.
///
/// # Errors
/// The file cannot be used, or there is no TLS.
fn read_access(file: Option<&Path>, has_tls: bool) -> anyhow::Result<(Access, Option<String>)> {
    let Some(path) = file else {
        return Ok((Access::by_role(), None));
    };
    if !has_tls {
        let text = "--auth-file without --tls-dir: without TLS every program of this host may do everything, and tokens could be read on their way; name a directory of `seqsvr cert alloc` with --tls-dir";
        return Err(BadInput(text.to_owned()).into());
    }
    let principals = auth::read_principals(path)?;
    let summary = auth::summarize(path, &principals);
    Ok((Access::by_file(principals), Some(summary)))
}
