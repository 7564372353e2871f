//! What operators ask, through any server: an AllocSvr relays to the store.

use seqsvr_core::namespace::{Namespace, Spec};
use seqsvr_proto::v1;
use tokio::time::sleep;

use crate::budget::Budget;
use crate::channels::parse;
use crate::client::Client;
use crate::error::Error;
use crate::failure::{Failure, Verdict};
use crate::rpc::Rpc;
use seqsvr_proto::v1::Reason;

/// Operators' calls. All may be retried: each is idempotent.
#[derive(Clone)]
pub struct Admin {
    client: Client,
}

/// What to change of a namespace; None: leave as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alter {
    /// Numbers a cold section's raise adds.
    pub step: Option<u32>,
    /// Most numbers one raise may add.
    pub step_max: Option<u32>,
    /// How many numbers RaiseTo may jump over in one section, in total, without force.
    pub raise_to_max: Option<u64>,
}

impl Admin {
    pub(crate) fn new(client: Client) -> Admin {
        Admin { client }
    }

    /// Creates a namespace; the same settings again are answered with the same one. Returns once a
    /// server's routing table has it, or the deadline is over.
    pub async fn create_namespace(&self, spec: &Spec) -> Result<Namespace, Error> {
        spec.check().map_err(Error::invalid)?;
        let wire = Namespace {
            id: seqsvr_core::id::NamespaceId(0),
            spec: spec.clone(),
            version: 0,
        };
        let request = v1::CreateNamespaceRequest {
            namespace: Some(v1::Namespace::from(&wire)),
        };
        let mut budget = Budget::new(self.client.deadline);
        let created = self.anywhere(request, None, &mut budget).await?;
        let created = read(&created)?;
        self.settle(created.version, &mut budget).await;
        Ok(created)
    }

    /// Changes step and limits of a namespace.
    pub async fn alter_namespace(&self, name: &str, alter: Alter) -> Result<Namespace, Error> {
        let request = v1::AlterNamespaceRequest {
            name: name.to_owned(),
            step: alter.step,
            step_max: alter.step_max,
            raise_to_max: alter.raise_to_max,
        };
        let mut budget = Budget::new(self.client.deadline);
        read(&self.anywhere(request, None, &mut budget).await?)
    }

    /// All namespaces.
    pub async fn list_namespaces(&self) -> Result<Vec<Namespace>, Error> {
        let mut budget = Budget::new(self.client.deadline);
        let request = v1::ListNamespacesRequest {};
        let reply = self.anywhere(request, None, &mut budget).await?;
        reply.namespaces.iter().map(read).collect()
    }

    /// The cluster as the StoreSvr leader sees it.
    pub async fn cluster_status(&self) -> Result<v1::ClusterStatusResponse, Error> {
        let mut budget = Budget::new(self.client.deadline);
        self.anywhere(v1::ClusterStatusRequest {}, None, &mut budget)
            .await
    }

    /// One process's role and counters.
    pub async fn node_status(&self, address: &str) -> Result<v1::NodeStatusResponse, Error> {
        let address = parse(address).map_err(|bad| Error::invalid(bad.to_string()))?;
        let mut budget = Budget::new(self.client.deadline);
        self.anywhere(v1::NodeStatusRequest {}, Some(&address), &mut budget)
            .await
    }

    /// Asks one server after the other, or only `at`.
    async fn anywhere<R: Rpc>(
        &self,
        request: R,
        at: Option<&str>,
        budget: &mut Budget,
    ) -> Result<R::Reply, Error> {
        let inner = &self.client.inner;
        loop {
            let address = at.map_or_else(
                || match inner.table.known() {
                    Some(known) => inner.servers.any(&known.addresses),
                    None => inner.servers.any(&[]),
                },
                str::to_owned,
            );
            match inner.try_at(&address, request.clone(), budget).await {
                Ok(reply) => return Ok(reply),
                Err(failure) => sleep(inner.pause(budget, &failure)?).await,
            }
        }
    }

    /// Waits until our table is as new as `version`, so that a namespace just made can be used by
    /// the next call. What was made is made: running out of time is no error.
    async fn settle(&self, version: u64, budget: &mut Budget) {
        let inner = &self.client.inner;
        loop {
            let ours = inner.table.known().map_or(0, |k| k.table.version());
            if ours >= version {
                return;
            }
            let failure = match inner.fetch(ours, budget).await {
                Ok(known) if known.table.version() >= version => return,
                Ok(_) => Failure::new(
                    Reason::NoSuchNamespace,
                    Verdict::Retry,
                    "waiting until the AllocSvr asked knows the new namespace".into(),
                ),
                Err(failure) => failure,
            };
            match inner.pause(budget, &failure) {
                Ok(pause) => sleep(pause).await,
                Err(_) => return,
            }
        }
    }
}

fn read(wire: &v1::Namespace) -> Result<Namespace, Error> {
    Namespace::try_from(wire).map_err(|e| Error {
        code: tonic::Code::Internal,
        ..Error::invalid(format!("{e}; client and server do not fit together"))
    })
}
