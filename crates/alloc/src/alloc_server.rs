//! A running AllocSvr: builds its parts, runs its tasks, shuts down.

mod components;
mod server_probe;
#[cfg(sim)]
pub(crate) mod sim_view;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use seqsvr_core::server_address::is_unspecified_address;
use seqsvr_net::tls::Role;
use seqsvr_net::{Listener, LocalSequence, Transport};
use seqsvr_proto::v1::admin_server::Admin;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use components::{AllocComponents, AllocTasks};

use crate::api::sequence_service::SequenceService;
use crate::error::Error;
use crate::options::{AllocEnvironment, Options};
use crate::session::state_dir::StateDir;
use crate::shared_parts::SharedParts;
use crate::slots::close_session::close_session;
use crate::store_client::cluster_votes::ExpectedCluster;
use crate::store_client::store_group::StoreGroupClient;

/// Maximum time of a shutdown to hand over its slots. Slots that remain are freed with the session.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum wait of a shutdown for calls in flight, because a client may keep a stream open without
/// end. After it the shutdown completes without them.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(6);

/// A running AllocSvr.
#[derive(Clone)]
pub struct AllocServer {
    local_addr: SocketAddr,
    pub(crate) components: Arc<AllocComponents>,
    lease_keeper: CancellationToken,
    lease_keeper_ended: CancellationToken,
    relay_stop: CancellationToken,
    /// Held until the server is gone, because its lock stands for the session. Schedule that breaks
    /// it, if only the lease keeper held it: a shutdown stops the keeper and waits for moves; the
    /// next process gets the lock and supersedes a session that still serves.
    _state_dir: Option<Arc<StateDir>>,
    failed: watch::Receiver<Option<Error>>,
}

impl AllocServer {
    /// Starts serving. Registration continues in the background. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Options`], [`Error::NoAdvertiseAddress`], [`Error::Listen`], [`Error::StateDir`],
    /// [`Error::ClusterConflict`].
    pub async fn start(options: Options) -> Result<AllocServer, Error> {
        AllocServer::start_in(options, AllocEnvironment::system()).await
    }

    /// Starts serving in this environment. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Options`], [`Error::NoAdvertiseAddress`], [`Error::Listen`], [`Error::StateDir`],
    /// [`Error::ClusterConflict`].
    pub async fn start_in(
        options: Options,
        environment: AllocEnvironment,
    ) -> Result<AllocServer, Error> {
        if cfg!(unleased) {
            tracing::warn!(
                "BUILT WITHOUT LEASE CHECKS (`--cfg unleased`), for tests only: all but strict answers may be out of order. Never run this build as a service"
            );
        }
        seqsvr_core::namespace::validate_name("AllocSvr", &options.name).map_err(Error::Options)?;
        if options.stores.is_empty() {
            return Err(Error::Options(
                "name at least one store with --stores".into(),
            ));
        }
        let listen = options.listen.to_string();
        let advertised = options.advertise.as_ref().unwrap_or(&listen);
        if is_unspecified_address(advertised) {
            return Err(Error::NoAdvertiseAddress(advertised.clone()));
        }
        let state_dir = options
            .state_dir
            .as_deref()
            .map(StateDir::open)
            .transpose()?
            .map(Arc::new);
        let expected_cluster = match (options.join_cluster, &state_dir) {
            (Some(cluster), _) => Some(ExpectedCluster::Flag(cluster)),
            (None, Some(dir)) => {
                let recorded = dir.load_cluster()?;
                recorded.map(|cluster| ExpectedCluster::StateDir(cluster, dir.path().to_owned()))
            }
            (None, None) => None,
        };
        let listen_error = |e: std::io::Error| Error::Listen {
            address: options.listen,
            reason: e.to_string(),
        };
        let listener = environment
            .transport
            .listen(options.listen)
            .await
            .map_err(listen_error)?;
        let local_addr = listener.local_addr().map_err(listen_error)?;
        let lease = environment.lease.clone().unwrap_or_else(Handle::current);
        let shared = SharedParts::new(&options, environment, local_addr.to_string());
        let lease_stores = StoreGroupClient::new(
            &options.stores,
            shared.channels.for_role(Role::Store),
            shared.random.clone(),
            shared.own_cluster.clone(),
            lease.clone(),
        );
        let components = AllocComponents::build(&options, shared, &lease_stores);
        let tasks =
            components.build_tasks(&options, lease_stores, state_dir.clone(), expected_cluster);
        let (failed_tx, failed) = watch::channel(None);
        // All AllocSvrs of a process share the memory of its counters.
        seqsvr_core::section::add_memory_limit(options.memory_budget);
        let alloc = AllocServer {
            local_addr,
            components: Arc::new(components),
            lease_keeper: CancellationToken::new(),
            lease_keeper_ended: CancellationToken::new(),
            relay_stop: CancellationToken::new(),
            _state_dir: state_dir,
            failed,
        };
        alloc.spawn_tasks(tasks, &lease, listener, failed_tx);
        Ok(alloc)
    }

    fn spawn_tasks(
        &self,
        components: AllocTasks,
        lease: &Handle,
        listener: Box<dyn Listener>,
        failed: watch::Sender<Option<Error>>,
    ) {
        let SharedParts {
            background,
            tasks,
            stopping,
            ..
        } = &self.components.shared;
        let lease_keeper = components.lease_keeper.run(self.lease_keeper.clone());
        let server = components.grpc_server.serve(listener, stopping.clone());
        let failed = Arc::new(failed);
        let failed_of_keeper = failed.clone();
        let ended_guard = self.lease_keeper_ended.clone().drop_guard();
        let keeping = async move {
            let _ended_guard = ended_guard;
            if let Err(error) = lease_keeper.await {
                failed_of_keeper.send_replace(Some(error));
            }
        };
        tasks.spawn_on(keeping, lease);
        let watch = components.cluster_watch.run(self.lease_keeper.clone());
        let (failed_of_watch, lease_keeper) = (failed.clone(), self.lease_keeper.clone());
        tasks.spawn(async move {
            if let Err(error) = watch.await {
                failed_of_watch.send_replace(Some(error));
                // Nothing is renewed while the process ends.
                lease_keeper.cancel();
            }
        });
        // The table is followed until the last connection has ended, because calls still in flight
        // at a shutdown are forwarded to the new owners.
        let connections_ended = CancellationToken::new();
        let watching = components.table_watcher.run(connections_ended.clone());
        tasks.spawn_on(watching, lease);
        tasks.spawn(async move {
            if let Err(error) = server.await {
                failed.send_replace(Some(error));
            }
            connections_ended.cancel();
        });
        background.spawn_tracked(components.ownership_verifier.run(stopping.clone()));
        background.spawn_tracked(components.section_reader.run(stopping.clone()));
        background.spawn_tracked(components.evictor.run(self.lease_keeper.clone()));
        background.spawn_tracked(components.command_queue.run(stopping.clone()));
        // A shutdown releases the workers once no call uses them.
        tokio::spawn(components.worker_relay.run(self.relay_stop.clone()));
        background.spawn_tracked(components.load_sampler.run(stopping.clone()));
    }

    /// Returns the address on which it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Returns the `Sequence` service for calls within this process. A server of another protocol
    /// bounds its requests itself.
    pub fn sequence(&self) -> impl LocalSequence + use<> {
        SequenceService(self.components.sequence.clone())
    }

    /// Returns the `Admin` service for calls within this process.
    pub fn admin(&self) -> impl Admin + use<> {
        self.components.admin.clone()
    }

    /// Returns its network, for calls of other servers by its endpoints.
    pub fn transport(&self) -> Arc<dyn Transport> {
        self.components.shared.transport.clone()
    }

    /// Records the address on which the HTTP endpoint with its page listens, so that the pages of
    /// other AllocSvrs have a link to it.
    pub fn set_http_address(&self, listen: SocketAddr) {
        self.components.shared.identity.set_http_address(listen);
    }

    /// Returns whether it holds a valid lease now.
    pub fn has_lease(&self) -> bool {
        self.components.shared.session.has_lease()
    }

    /// Waits for a fatal error and returns it. Never returns while there is none.
    pub async fn failed(&self) -> Error {
        let mut failed = self.failed.clone();
        match failed.wait_for(Option::is_some).await {
            Ok(error) => error
                .clone()
                .unwrap_or_else(|| Error::Serve("unknown".into())),
            Err(_) => std::future::pending().await,
        }
    }

    /// Hands slots over to other AllocSvrs, if there are any, then ends the session and stops.
    /// Calls in flight have 6 s to end.
    pub async fn shutdown(&self) {
        let AllocComponents {
            shared,
            sections,
            slot_mover,
            stores,
            sequence,
            ..
        } = &*self.components;
        slot_mover
            .drain_slots(Instant::now() + HANDOVER_TIMEOUT)
            .await;
        self.lease_keeper.cancel();
        self.lease_keeper_ended.cancelled().await;
        close_session(&shared.session, sections, &slot_mover.tracker, stores).await;
        shared.stopping.cancel();
        shared.tasks.close();
        let drained = tokio::time::timeout(DRAIN_TIMEOUT, shared.tasks.wait()).await;
        if drained.is_err() {
            tracing::warn!(timeout = ?DRAIN_TIMEOUT, "calls or streams are still open; shutdown does not wait for them");
        }
        sequence.families.close().await;
        self.relay_stop.cancel();
    }
}

#[cfg(test)]
mod tests {
    use seqsvr_net::ChannelPool;
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;

    use super::*;

    /// A health watch never ends by itself, and the server waits for its connections.
    #[tokio::test]
    async fn shutdown_with_open_stream_ends() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = Options::new("a1", any, vec!["127.0.0.1:1".into()]);
        let alloc = AllocServer::start(options).await.unwrap();
        let channel = ChannelPool::new().get(&alloc.local_addr().to_string());
        let mut client = HealthClient::new(channel.unwrap());
        let watched = client.watch(HealthCheckRequest::default()).await.unwrap();
        let mut stream = watched.into_inner();
        stream.message().await.unwrap().expect("the first state");
        tokio::time::timeout(2 * DRAIN_TIMEOUT, alloc.shutdown())
            .await
            .expect("the shutdown ends");
    }

    /// No machine reaches another one at 0.0.0.0: no caller would find the owner of its slots.
    #[tokio::test]
    async fn unspecified_address_needs_an_advertised_one() {
        let dir = tempfile::tempdir().unwrap();
        let stores = vec!["127.0.0.1:1".to_owned()];
        for listen in ["0.0.0.0:0", "[::]:0", "[::ffff:0.0.0.0]:0"] {
            for advertise in [None, Some("0.0.0.0:7700".to_owned())] {
                let state_dir = dir.path().join("state");
                let options = Options {
                    advertise,
                    state_dir: Some(state_dir.clone()),
                    ..Options::new("a1", listen.parse().unwrap(), stores.clone())
                };
                let error = AllocServer::start(options).await.err().expect(listen);
                assert!(matches!(error, Error::NoAdvertiseAddress(_)), "{error}");
                assert!(!state_dir.exists(), "nothing is made");
            }
        }
        let options = Options {
            advertise: Some("127.0.0.1:7700".to_owned()),
            ..Options::new("a1", SocketAddr::from(([0, 0, 0, 0], 0)), stores)
        };
        AllocServer::start(options).await.unwrap().shutdown().await;
    }

    /// Schedule: a shutdown has stopped the lease keeper and waits for moves; the next process must
    /// not get the lock while the session still serves.
    #[tokio::test]
    async fn state_dir_stays_locked_after_end_of_lease_keeper() {
        let dir = tempfile::tempdir().unwrap();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = Options {
            state_dir: Some(dir.path().to_owned()),
            ..Options::new("a1", any, vec!["127.0.0.1:1".into()])
        };
        let alloc = AllocServer::start(options).await.unwrap();
        alloc.lease_keeper.cancel();
        alloc.lease_keeper_ended.cancelled().await;
        assert!(StateDir::open(dir.path()).is_err());
        drop(alloc);
        StateDir::open(dir.path()).expect("no process holds it");
    }
}
