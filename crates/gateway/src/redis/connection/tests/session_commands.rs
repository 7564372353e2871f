//! Commands that need no number, with the answers of Valkey 9.1.

use super::*;
use crate::counting_sequence::CountingSequence;

/// Sends a line to a new connection; returns its answer.
async fn answer_of(sequence: impl LocalSequence, lines: &str) -> String {
    let (mut client_end, served) =
        spawn_connection_to(sequence, &new_shared(), 1 << 16, CancellationToken::new());
    let sent = format!("{lines}\r\nquit\r\n");
    client_end.write_all(sent.as_bytes()).await.unwrap();
    let mut answer = String::new();
    client_end.read_to_string(&mut answer).await.unwrap();
    served.await.unwrap();
    answer.strip_suffix("+OK\r\n").unwrap().to_owned()
}

#[tokio::test]
async fn command_without_number_is_answered_as_valkey_does() {
    for (line, expected) in [
        (
            "config get",
            "-ERR wrong number of arguments for 'config|get' command\r\n",
        ),
        ("config get s?ve", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"),
        (
            "config get sav[ae] max*memory",
            "*4\r\n$9\r\nmaxmemory\r\n$1\r\n0\r\n$4\r\nsave\r\n$0\r\n\r\n",
        ),
        ("config get SAVE nosuch", "*2\r\n$4\r\nSAVE\r\n$0\r\n\r\n"),
        ("config get nosuch", "*0\r\n"),
        (
            "config",
            "-ERR wrong number of arguments for 'config' command\r\n",
        ),
        (
            "config FOO",
            "-ERR unknown subcommand 'FOO'. Try CONFIG HELP.\r\n",
        ),
        ("command info nope", "*1\r\n$-1\r\n"),
        ("command docs nope", "*0\r\n"),
        (
            "command info nope Get",
            "*2\r\n$-1\r\n*10\r\n$3\r\nget\r\n:2\r\n*2\r\n+readonly\r\n+fast\r\n:1\r\n:1\r\n:1\r\n*0\r\n*0\r\n*0\r\n*0\r\n",
        ),
        (
            "command foo",
            "-ERR unknown subcommand 'foo'. Try COMMAND HELP.\r\n",
        ),
        ("info nope", "$0\r\n\r\n"),
        (
            "hello abc",
            "-ERR Protocol version is not an integer or out of range\r\n",
        ),
        ("hello 4", "-NOPROTO unsupported protocol version\r\n"),
        ("hello 2 foo", "-ERR Syntax error in HELLO option 'foo'\r\n"),
        (
            "hello 2",
            "*14\r\n$6\r\nserver\r\n$6\r\nseqsvr\r\n$7\r\nversion\r\n$5\r\n7.2.0\r\n$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n",
        ),
        (
            "select abc",
            "-ERR value is not an integer or out of range\r\n",
        ),
        ("client setinfo FOO x", "-ERR Unrecognized option 'FOO'\r\n"),
        (
            "client setinfo lib-name",
            "-ERR wrong number of arguments for 'client|setinfo' command\r\n",
        ),
        (
            "client foo",
            "-ERR unknown subcommand 'foo'. Try CLIENT HELP.\r\n",
        ),
        (
            "client id a",
            "-ERR wrong number of arguments for 'client|id' command\r\n",
        ),
        ("client no-evict foo", "-ERR syntax error\r\n"),
        ("client reply foo", "-ERR syntax error\r\n"),
        ("client reply on", "+OK\r\n"),
        ("client list foo", "-ERR syntax error\r\n"),
        ("client list type foo", "-ERR Unknown client type 'foo'\r\n"),
        ("client list type pubsub", "$0\r\n\r\n"),
        ("client list id 99", "$0\r\n\r\n"),
    ] {
        let answer = answer_of(CountingSequence::default(), line).await;
        assert_eq!(answer, expected, "{line}");
    }
    let refused = answer_of(CountingSequence::default(), "client reply off").await;
    assert!(refused.starts_with("-ERR CLIENT REPLY OFF and SKIP are not"));
    let refused = answer_of(CountingSequence::default(), "select -1").await;
    assert!(refused.starts_with("-ERR DB index is out of range"));
}

#[tokio::test]
async fn client_info_has_the_fields_of_redis_and_what_the_library_says() {
    let lines = "client setname me\r\nclient setinfo lib-name lettuce\r\nclient setinfo LIB-VER 6.5\r\nclient setinfo lib-ver \"a b\"\r\n";
    let line = "id=1 addr=127.0.0.1:1 laddr=127.0.0.1:6380 fd=0 name=me age=0 idle=0 flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd=client|";
    for (command, name) in [("info", "info"), ("list", "list"), ("list id 7 1", "list")] {
        let sent = format!("{lines}client {command}");
        let answer = answer_of(CountingSequence::default(), &sent).await;
        let rest = "user=default redir=-1 resp=2 lib-name=lettuce lib-ver=6.5\n";
        assert!(
            answer.starts_with("+OK\r\n+OK\r\n+OK\r\n-ERR lib-ver cannot contain spaces"),
            "{answer}"
        );
        assert!(
            answer.ends_with(&format!("{line}{name} {rest}\r\n")),
            "{answer}"
        );
    }
}

/// `redis-cli --stat` shows -9223372036854775808 for a field that is absent, and ioredis waits
/// while the server is loading.
#[tokio::test]
async fn info_has_the_fields_that_programs_read() {
    let info = answer_of(CountingSequence::default(), "info").await;
    for field in [
        "redis_version:",
        "tcp_port:6380",
        "connected_clients:1",
        "blocked_clients:0",
        "used_memory:",
        "loading:0",
        "total_commands_processed:",
        "total_connections_received:1",
        "role:master",
        "cluster_enabled:0",
    ] {
        assert!(info.contains(&format!("\r\n{field}")), "{field}: {info}");
    }
    let persistence = answer_of(NoopSequence::default(), "info Persistence").await;
    let begin = "# Persistence\r\nloading:1\r\n";
    assert!(persistence.contains(begin), "{persistence}");
    assert!(!persistence.contains("# Server"), "{persistence}");
    let both = answer_of(CountingSequence::default(), "info server CLIENTS").await;
    assert!(
        both.contains("# Server")
            && both.contains("\r\n\r\n# Clients")
            && !both.contains("# Stats")
    );
    let verbatim = answer_of(CountingSequence::default(), "hello 3\r\ninfo keyspace").await;
    assert!(
        verbatim.ends_with("=16\r\ntxt:# Keyspace\r\n\r\n"),
        "{verbatim}"
    );
}
