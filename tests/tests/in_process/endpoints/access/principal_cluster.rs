//! A cluster with principals of each right alone.

use seqsvr_access::{AccessFile, Secret};
use seqsvr_client::FamilySpec;
use seqsvr_core::layout::TickScale;
use seqsvr_net::tls::CaTransport;
use seqsvr_proto::v1::CurrentKind;
use seqsvr_test_support::in_process::create_family;

use super::grpc_caller::{Shown, current};
use super::*;

/// Each right alone, as a line of the file; and none.
pub(super) const RIGHTS: [&str; 8] = [
    "",
    "next=['orders']",
    "current=['orders']",
    "raise=['orders']",
    "next=['@ids/orders']",
    "cluster=['status']",
    "cluster=['metrics']",
    "cluster=['admin']",
];
pub(super) const NEXT: &str = RIGHTS[1];
pub(super) const CURRENT: &str = RIGHTS[2];
pub(super) const RAISE: &str = RIGHTS[3];
pub(super) const IDS: &str = RIGHTS[4];
pub(super) const STATUS: &str = RIGHTS[5];
pub(super) const ADMIN: &str = RIGHTS[7];
/// 2026-01-01, the epoch of the families.
const EPOCH_MS: u64 = 1_767_225_600_000;
/// Uid of which numbers are taken, and the one that is raised.
pub(super) const TAKEN: u64 = 1;
pub(super) const RAISED: u64 = 2;

/// A cluster with principals, one for each of [`RIGHTS`].
pub(super) struct PrincipalCluster {
    pub(super) secured: SecuredCluster,
    pub(super) tokens: Vec<Secret>,
}

impl PrincipalCluster {
    pub(super) async fn start() -> PrincipalCluster {
        let tokens = RIGHTS.map(|_| Secret::generate().unwrap()).to_vec();
        let tables = RIGHTS.iter().zip(&tokens).enumerate();
        let tables = tables.map(|(i, (rights, token))| {
            let hash = token.hash();
            format!("[[principal]]\nname='p{i}'\nsha256=['{hash}']\n{rights}\n")
        });
        let file = AccessFile::parse(&tables.collect::<String>()).unwrap();
        let secured = SecuredCluster::start_with(Access::by_file(file)).await;
        let client = secured.client_of("admin");
        let admin = client.admin();
        wait_until("both AllocSvrs and all slots", TEST_TIMEOUT, async || {
            let status = admin.cluster_status().await.ok()?;
            (status.sessions.len() == 2 && status.free_slots == 0).then_some(())
        })
        .await;
        for name in ["orders", "other"] {
            let spec = dense_namespace(name, 1_000, 1_000_000, 100);
            admin.create_namespace(&spec).await.unwrap();
            let layout = "0:1,time:41,worker:10,seq:12".parse().unwrap();
            let spec = FamilySpec::new(name, layout, TickScale::new(EPOCH_MS, 1).unwrap());
            create_family(&admin, &spec).await;
        }
        let cluster = PrincipalCluster { secured, tokens };
        let operator = cluster.certified("admin", "alice");
        wait_until("the new names everywhere", TEST_TIMEOUT, async || {
            let names = operator.visible_names().await;
            let found = ["orders", "other", "@ids/orders", "@ids/other"];
            found
                .iter()
                .all(|name| names.iter().any(|n| n == name))
                .then_some(())
        })
        .await;
        cluster
    }

    fn channel_over(&self, transport: Arc<dyn Transport>) -> Channel {
        let pool = ChannelPool::with_transport(transport);
        pool.get(&self.secured.alloc_address(0)).unwrap()
    }

    pub(super) fn certified(&self, role: &str, name: &str) -> Shown {
        Shown {
            channel: self.channel_over(self.network_of(role, name)),
            authorization: Vec::new(),
        }
    }

    /// Returns the network of a caller with a certificate.
    pub(super) fn network_of(&self, role: &str, name: &str) -> Arc<dyn Transport> {
        write_certificate(&self.secured.ca, self.secured.dir.path(), role, name)
    }

    /// Returns the network of a caller without a certificate.
    pub(super) fn network_of_strangers(&self) -> Arc<dyn Transport> {
        let dir = self.secured.dir.path().join("alloc-a1");
        CaTransport::from_file(&dir.join("ca.pem")).unwrap()
    }

    /// Returns a caller without a certificate that shows these values of `authorization`.
    pub(super) fn with_values(&self, values: &[&str]) -> Shown {
        Shown {
            channel: self.channel_over(self.network_of_strangers()),
            authorization: values.iter().map(|value| (*value).to_owned()).collect(),
        }
    }

    pub(super) fn bearer(&self, principal: usize) -> String {
        format!("Bearer {}", self.tokens[principal].expose())
    }

    /// Returns each principal with its right: by its token, and by its certificate.
    pub(super) fn principals(&self) -> Vec<(&'static str, Shown)> {
        let of = |(i, right): (usize, &&'static str)| {
            let by_token = self.with_values(&[&self.bearer(i)]);
            [by_token, self.certified("client", &format!("p{i}"))].map(|shown| (*right, shown))
        };
        RIGHTS.iter().enumerate().flat_map(of).collect()
    }

    /// Returns the last number of a uid, and how it is known.
    pub(super) async fn last_number(&self, namespace: &str) -> (u64, CurrentKind) {
        let operator = self.certified("admin", "alice");
        let path = "/seqsvr.v1.Sequence/Current";
        let request = current(namespace).encode_to_vec();
        let (status, answers) = operator.call(path, &[request]).await;
        assert_eq!(status.code(), Code::Ok, "{status}");
        let answer = v1::CurrentResponse::decode(&*answers[0]).unwrap();
        (answer.value, answer.kind())
    }
}
