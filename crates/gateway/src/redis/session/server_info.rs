//! The answer to INFO: sections of fields, with the names of Redis 7.2.

use std::fmt::Write;

use super::REDIS_VERSION;
use crate::redis::shared::RedisShared;

/// Returns the text of the requested sections; of all, if none is named. What the server does not
/// count is 0: programs read some fields by name and show nonsense if one is absent.
/// `can_serve`: the server answers requests for numbers; without it, it is loading, and clients
/// that check for that wait.
pub(super) fn server_info(shared: &RedisShared, sections: &[&[u8]], can_serve: bool) -> String {
    let is_requested = |section: &str| {
        let names = |name: &&[u8]| {
            let all: [&[u8]; 3] = [b"all", b"everything", b"default"];
            name.eq_ignore_ascii_case(section.as_bytes())
                || all.iter().any(|all| name.eq_ignore_ascii_case(all))
        };
        sections.is_empty() || sections.iter().any(names)
    };
    let mut text = String::new();
    for (section, fields) in [
        ("Server", server_fields(shared)),
        ("Clients", client_fields(shared)),
        ("Memory", memory_fields(shared)),
        ("Persistence", persistence_fields(can_serve)),
        ("Stats", stats_fields(shared)),
        ("Replication", REPLICATION_FIELDS.to_owned()),
        ("CPU", CPU_FIELDS.to_owned()),
        ("Cluster", "cluster_enabled:0\r\n".to_owned()),
        // The server does not count the keys of a cluster.
        ("Keyspace", String::new()),
    ] {
        if is_requested(section) {
            let separator = if text.is_empty() { "" } else { "\r\n" };
            // Writing to a text cannot fail.
            let _ = write!(text, "{separator}# {section}\r\n{fields}");
        }
    }
    text
}

const REPLICATION_FIELDS: &str = "role:master\r\nconnected_slaves:0\r\nmaster_failover_state:no-failover\r\nmaster_repl_offset:0\r\nrepl_backlog_active:0\r\n";
const CPU_FIELDS: &str = "used_cpu_sys:0.000000\r\nused_cpu_user:0.000000\r\n";

fn server_fields(shared: &RedisShared) -> String {
    let uptime = shared.uptime().as_secs();
    format!(
        "redis_version:{REDIS_VERSION}\r\nserver_name:seqsvr\r\nseqsvr_version:{}\r\nredis_mode:standalone\r\nserver_mode:standalone\r\nos:{}\r\narch_bits:{}\r\nprocess_id:{}\r\ntcp_port:{}\r\nuptime_in_seconds:{uptime}\r\nuptime_in_days:{}\r\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        usize::BITS,
        std::process::id(),
        shared.port,
        uptime / (24 * 60 * 60),
    )
}

fn client_fields(shared: &RedisShared) -> String {
    format!(
        "connected_clients:{}\r\nmaxclients:{}\r\nblocked_clients:0\r\ntracking_clients:0\r\n",
        shared.connections_open(),
        shared.connections_max,
    )
}

fn memory_fields(shared: &RedisShared) -> String {
    format!(
        "used_memory:{0}\r\nused_memory_human:{0}B\r\nused_memory_rss:0\r\nused_memory_peak:0\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\nmem_fragmentation_ratio:0\r\n",
        shared.buffers.held_bytes(),
    )
}

fn persistence_fields(can_serve: bool) -> String {
    format!(
        "loading:{}\r\nasync_loading:0\r\nrdb_changes_since_last_save:0\r\nrdb_bgsave_in_progress:0\r\nrdb_last_save_time:0\r\nrdb_last_bgsave_status:ok\r\naof_enabled:1\r\naof_rewrite_in_progress:0\r\naof_last_bgrewrite_status:ok\r\naof_last_write_status:ok\r\n",
        u8::from(!can_serve),
    )
}

fn stats_fields(shared: &RedisShared) -> String {
    format!(
        "total_connections_received:{}\r\ntotal_commands_processed:0\r\ninstantaneous_ops_per_sec:0\r\ntotal_net_input_bytes:0\r\ntotal_net_output_bytes:0\r\ninstantaneous_input_kbps:0.00\r\ninstantaneous_output_kbps:0.00\r\nrejected_connections:0\r\nexpired_keys:0\r\nevicted_keys:0\r\nkeyspace_hits:0\r\nkeyspace_misses:0\r\npubsub_channels:0\r\npubsub_patterns:0\r\nlatest_fork_usec:0\r\n",
        shared.connections_total(),
    )
}
