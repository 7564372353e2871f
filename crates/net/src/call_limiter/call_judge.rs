//! Who makes a call: by the token that its head has, or else by its connection.
//!
//! Invariant: a call is judged by one identity. If its head has a token, that token alone counts,
//! and a wrong one is never made good by a certificate. A server without principals reads none.
//!
//! Schedules that break it: a proxy with a certificate of its own passes on the calls of many; a
//! caller whose token was removed would go on as the proxy. Or a call has two `authorization`
//! values, and the proxy has checked the first, the server judges by the second.

use seqsvr_access::{Access, BadCredentials, BadSecret, Caller, Credentials, Secret};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::Reason;
use tonic::Status;
use tonic::codegen::http::header::AUTHORIZATION;
use tonic::codegen::http::{HeaderMap, Request};

use crate::connection_quota::ConnectionQuota;
use crate::peer::{ConnectionPeer, unknown_caller};

/// Scheme of `authorization`, in any case, with the space after it.
const SCHEME: &[u8] = b"bearer ";

/// Returns who makes a call, and takes the token off its head.
///
/// # Errors
/// UNAUTHENTICATED: nothing that it shows names a caller.
pub(super) fn judge_call<B>(access: &Access, call: &mut Request<B>) -> Result<Caller, Status> {
    let token = match access.has_principals() {
        true => take_bearer_token(call.headers_mut())?,
        false => None,
    };
    let quota = call.extensions().get::<ConnectionQuota>();
    Ok(judge_caller(
        access,
        token.as_ref(),
        quota.map(ConnectionQuota::peer),
    )?)
}

/// Returns who shows this token, or else who is at the other end of the connection; `peer` is None
/// if that is not known.
///
/// # Errors
/// UNAUTHENTICATED: nothing that it shows names a caller.
pub fn judge_caller(
    access: &Access,
    token: Option<&Secret>,
    peer: Option<&ConnectionPeer>,
) -> Result<Caller, RpcError> {
    let judge = |shown| access.judge(shown).map_err(unauthenticated);
    let by_connection = peer.map_or_else(|| Err(unknown_caller()), ConnectionPeer::credentials);
    if let Some(token) = token {
        // Other machines could read a token on a connection without TLS.
        if let Ok(plaintext @ Credentials::Plaintext(_)) = by_connection {
            judge(plaintext)?;
        }
        return judge(Credentials::Token(token));
    }
    match by_connection {
        Ok(shown) => judge(shown),
        Err(why) if access.has_principals() => Err(RpcError::new(
            Reason::Unauthenticated,
            format!(
                "the call has no token, and its connection names no caller: {}; send a token (--token-file) or use a certificate (--tls-dir)",
                why.message
            ),
        )),
        Err(why) => Err(why),
    }
}

/// Takes the token off the head of a call; None: it has none.
///
/// # Errors
/// It has several values, or one that is no token.
pub fn take_bearer_token(headers: &mut HeaderMap) -> Result<Option<Secret>, Status> {
    let bad = |why: &str| {
        let text = format!("authorization: {why}; send `Bearer` and one token");
        Status::from(RpcError::new(Reason::Unauthenticated, text))
    };
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(bad("the call has several values"));
    }
    let token = value
        .as_bytes()
        .split_at_checked(SCHEME.len())
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(SCHEME))
        .and_then(|(_, token)| str::from_utf8(token).ok())
        .ok_or(BadSecret)
        .and_then(Secret::parse);
    let token = token.map_err(|why: BadSecret| bad(&why.to_string()))?;
    headers.remove(AUTHORIZATION);
    Ok(Some(token))
}

fn unauthenticated(why: BadCredentials) -> RpcError {
    RpcError::new(Reason::Unauthenticated, why.to_string())
}

#[cfg(test)]
mod tests {
    use seqsvr_access::AccessFile;
    use tonic::Code;
    use tonic::codegen::http::HeaderValue;

    use super::*;
    use crate::peer::{BadIdentity, PeerCertificate, PeerIdentity};

    /// Returns the judge of the principals `t` with a token and `c` without, and the token.
    fn principals() -> (Access, String) {
        let token = Secret::generate().unwrap();
        let text = format!(
            "[[principal]]\nname='t'\nsha256=['{}']\n[[principal]]\nname='c'\n",
            token.hash()
        );
        let access = Access::by_file(AccessFile::parse(&text).unwrap());
        (access, token.expose().to_owned())
    }

    fn certified(identity: Result<&str, &str>) -> ConnectionPeer {
        let peer = ConnectionPeer::before_handshake(([10, 0, 0, 9], 4).into());
        let identity = identity.map_err(|why| BadIdentity(why.to_owned()));
        let certificate = |who| PeerCertificate::new(who, Vec::new());
        peer.identify(identity.and_then(PeerIdentity::parse).map(certificate));
        peer
    }

    /// Judges a call with these values of `authorization`. Returns who makes it.
    fn judge(
        access: &Access,
        peer: Option<ConnectionPeer>,
        values: &[&str],
    ) -> Result<String, Status> {
        let mut call = Request::new(());
        for value in values {
            let value = HeaderValue::from_str(value).unwrap();
            call.headers_mut().append(AUTHORIZATION, value);
        }
        if let Some(peer) = peer {
            call.extensions_mut().insert(ConnectionQuota::new(peer));
        }
        let judged = judge_call(access, &mut call);
        if access.has_principals() && judged.is_ok() {
            assert!(!call.headers().contains_key(AUTHORIZATION), "it stays");
        }
        judged.map(|caller| caller.to_string())
    }

    fn refusal(judged: Result<String, Status>) -> String {
        let status = judged.unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated, "{status}");
        status.message().to_owned()
    }

    #[test]
    fn token_counts_before_every_certificate() {
        let (access, token) = principals();
        let bearer = format!("Bearer {token}");
        for peer in [
            certified(Err("there is no certificate")),
            certified(Ok("seqsvr://p/client/c")),
            certified(Ok("seqsvr://p/admin/alice")),
            certified(Ok("seqsvr://p/alloc/a1")),
            ConnectionPeer::plaintext(([127, 0, 0, 1], 4).into()),
        ] {
            for value in [&bearer, &format!("bEARER {token}")] {
                let judged = judge(&access, Some(peer.clone()), &[value]);
                assert_eq!(judged.unwrap(), "principal t", "{peer}");
            }
        }
        for (peer, who) in [
            ("seqsvr://p/client/c", "principal c"),
            (
                "seqsvr://p/client/x",
                "a client without a principal of its name",
            ),
            ("seqsvr://p/admin/alice", "an operator"),
            ("seqsvr://p/alloc/a1", "a server"),
            ("seqsvr://p/store/s1", "a server"),
        ] {
            let judged = judge(&access, Some(certified(Ok(peer))), &[]);
            assert_eq!(judged.unwrap(), who);
        }
    }

    /// Schedule: see the head of this file.
    #[test]
    fn wrong_token_and_two_values_are_refused_with_every_certificate() {
        let (access, token) = principals();
        let right = format!("Bearer {token}");
        let wrong = format!("Bearer sq_{}", "0".repeat(64));
        for peer in [
            certified(Err("there is no certificate")),
            certified(Ok("seqsvr://p/client/c")),
            certified(Ok("seqsvr://p/admin/alice")),
            certified(Ok("seqsvr://p/alloc/a1")),
            ConnectionPeer::plaintext(([127, 0, 0, 1], 4).into()),
        ] {
            let refused = |values: &[&str]| refusal(judge(&access, Some(peer.clone()), values));
            assert!(refused(&[&wrong]).contains("of no principal"));
            for values in [[&*right, &*right], [&right, &wrong], [&wrong, &right]] {
                assert!(refused(&values).contains("several values"));
            }
            for other in [
                "",
                "Bearer",
                "Bearer ",
                &token,
                &format!("Basic {token}"),
                &format!("Bearer  {token}"),
                &format!("{right} "),
                &format!("{right},{right}"),
            ] {
                let text = refused(&[other]);
                assert!(text.contains("no token"), "{other}: {text}");
                assert!(!text.contains(&token[3..]), "{text}");
            }
        }
    }

    #[test]
    fn call_without_identity_and_token_is_refused() {
        let (access, _) = principals();
        let peer = certified(Err("there is no certificate"));
        let text = refusal(judge(&access, Some(peer), &[]));
        assert!(text.contains("there is no certificate") && text.contains("--token-file"));
        let unknown = ConnectionPeer::before_handshake(([10, 0, 0, 9], 4).into());
        for access in [access, Access::by_role()] {
            refusal(judge(&access, Some(unknown.clone()), &[]));
            refusal(judge(&access, None, &[]));
        }
    }

    #[test]
    fn token_is_not_judged_where_other_machines_may_read_it() {
        let (access, token) = principals();
        let routable = ConnectionPeer::plaintext(([10, 0, 0, 9], 4).into());
        let bearer = format!("Bearer {token}");
        for values in [&[][..], &[&*bearer]] {
            let text = refusal(judge(&access, Some(routable.clone()), values));
            assert!(text.contains("without TLS"), "{text}");
        }
    }

    #[test]
    fn server_without_principals_reads_no_token() {
        let access = Access::by_role();
        let plain = ConnectionPeer::plaintext(([10, 0, 0, 9], 4).into());
        for values in [&[][..], &["Bearer x"], &["Bearer x", "Basic y"]] {
            let judged = judge(&access, Some(plain.clone()), values);
            assert_eq!(judged.unwrap(), "a program of this host");
            let client = certified(Ok("seqsvr://p/client/c"));
            assert_eq!(judge(&access, Some(client), values).unwrap(), "a client");
        }
    }
}
