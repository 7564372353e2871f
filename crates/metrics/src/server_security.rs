//! The protection of a server, as its status and its metrics show it.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::metric_sample::MetricSample;

const INSECURE_HELP: &str =
    "1 if any program that reaches the server may do everything (--insecure)";
const EXPIRY_HELP: &str =
    "end of the server's certificate, in seconds of Unix time; 0 without TLS (--tls-dir)";

/// The protection of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerSecurity {
    /// Whether any program that reaches the server may do everything.
    pub insecure: bool,
    /// End of its certificate, in seconds of Unix time; 0: no TLS.
    pub certificate_expiry_s: u64,
}

impl ServerSecurity {
    /// Returns the samples of `status --json`.
    pub fn samples(self) -> [MetricSample; 2] {
        let at = self.certificate_expiry_s;
        [
            MetricSample::gauge("insecure", INSECURE_HELP, self.insecure.into()),
            MetricSample::gauge("certificate_expiry_seconds", EXPIRY_HELP, at),
        ]
    }

    /// Adds `seqsvr_insecure` and `seqsvr_certificate_expiry_seconds`, which have the same names on
    /// every kind of server.
    pub fn register(self, registry: &mut Registry) {
        let insecure = Gauge::<i64>::default();
        insecure.set(self.insecure.into());
        registry.register("seqsvr_insecure", INSECURE_HELP, insecure);
        let expiry = Gauge::<i64>::default();
        expiry.set(i64::try_from(self.certificate_expiry_s).unwrap_or(i64::MAX));
        registry.register("seqsvr_certificate_expiry_seconds", EXPIRY_HELP, expiry);
    }
}
