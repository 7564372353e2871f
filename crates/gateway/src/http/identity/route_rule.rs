//! What each path needs of its caller.

use seqsvr_access::ClusterRight;

/// A path, and what it needs.
#[derive(Clone, Copy, Debug)]
pub struct RouteRule {
    /// The path; from `{` on, all paths that begin in the same way.
    pub path: &'static str,
    /// What it needs of a caller.
    pub right: RouteRight,
}

/// What a path needs of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteRight {
    /// No identity: it shows the same to all callers.
    Free,
    /// No identity for its status and one word; the right `status` for its text.
    Probe,
    /// An identity. The service checks its rights on the namespace in the request.
    Named,
    /// An identity, which may be in a field of the request, with the right `next` on its tag.
    Tag,
    /// An identity with a right on the cluster.
    Cluster(ClusterRight),
}

/// Every path that a server may have.
pub const ROUTE_RULES: [RouteRule; 20] = {
    use RouteRight::{Cluster, Free, Named, Probe, Tag};
    [
        rule("/v1/next", Named),
        rule("/v1/next-many", Named),
        rule("/v1/current", Named),
        rule("/v1/current-many", Named),
        rule("/v1/raise-to", Named),
        rule("/v1/openapi.json", Free),
        rule("/api/segment/get/{key}", Tag),
        rule("/tinyid/id/nextId", Tag),
        rule("/tinyid/id/nextIdSimple", Tag),
        rule("/tinyid/id/nextSegmentId", Tag),
        rule("/tinyid/id/nextSegmentIdSimple", Tag),
        rule("/", Free),
        rule("/page.css", Free),
        rule("/page.js", Free),
        rule("/v1/cluster", Cluster(ClusterRight::Status)),
        rule("/v1/slots", Cluster(ClusterRight::Status)),
        rule("/v1/route", Cluster(ClusterRight::Status)),
        rule("/metrics", Cluster(ClusterRight::Metrics)),
        rule("/healthz", Probe),
        rule("/readyz", Probe),
    ]
};

const fn rule(path: &'static str, right: RouteRight) -> RouteRule {
    RouteRule { path, right }
}

impl RouteRule {
    fn covers(&self, path: &str) -> bool {
        match self.path.split_once('{') {
            None => path == self.path,
            Some((start, _)) => path.starts_with(start),
        }
    }
}

/// Returns what a path needs; None: no server has it.
pub(super) fn right_for(path: &str) -> Option<RouteRight> {
    let rule = ROUTE_RULES.iter().find(|rule| rule.covers(path))?;
    Some(rule.right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_without_a_row_has_no_right() {
        for (path, right) in [
            ("/v1/next", Some(RouteRight::Named)),
            ("/v1/next/", None),
            ("/v1/next-", None),
            ("/V1/next", None),
            ("/v1/%6eext", None),
            (
                "/v1/cluster",
                Some(RouteRight::Cluster(ClusterRight::Status)),
            ),
            ("/v1/cluster2", None),
            ("//v1/cluster", None),
            ("/", Some(RouteRight::Free)),
            ("", None),
            ("*", None),
            ("/page.js", Some(RouteRight::Free)),
            ("/page.jsx", None),
            ("/api/segment/get", None),
            ("/api/segment/get/", Some(RouteRight::Tag)),
            ("/api/segment/get/a/", Some(RouteRight::Tag)),
            ("/tinyid/id/nextId", Some(RouteRight::Tag)),
            ("/tinyid/id/nextId/", None),
            ("/healthz", Some(RouteRight::Probe)),
        ] {
            assert_eq!(right_for(path), right, "{path}");
        }
    }
}
