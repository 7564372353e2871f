//! The answer to CLIENT INFO and CLIENT LIST: the fields of Redis 7.2.

use super::RedisSession;
use crate::redis::reply::{ReplyBuffer, RespVersion};

impl RedisSession<'_> {
    /// Writes the fields of this connection. What the server does not count is 0. Clients read the
    /// fields by name, and some fail if one is absent.
    pub(super) fn write_client_line(&self, subcommand: &str, replies: &mut ReplyBuffer) {
        let RedisSession {
            id,
            local,
            name,
            lib_name,
            lib_ver,
            opened_at,
            identity,
            ..
        } = self;
        let age = opened_at.elapsed().as_secs();
        let resp = match replies.version {
            RespVersion::Resp2 => 2,
            RespVersion::Resp3 => 3,
        };
        let [name, lib_name, lib_ver] =
            [name, lib_name, lib_ver].map(|text| String::from_utf8_lossy(text));
        let (user, remote) = (identity.user_name(), identity.remote());
        let line = format!(
            "id={id} addr={remote} laddr={local} fd=0 name={name} age={age} idle=0 flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd=client|{subcommand} user={user} redir=-1 resp={resp} lib-name={lib_name} lib-ver={lib_ver}\n"
        );
        replies.write_text(&line);
    }
}
