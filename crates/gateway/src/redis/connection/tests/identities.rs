//! The identity by which each command is executed, wherever the bytes of a pipeline are cut.

use seqsvr_access::{Access, AccessFile, Secret};
use seqsvr_net::PeerCertificate;
use seqsvr_net::tls::PeerIdentity;

use super::transactions::{AT_ONCE, BYTE_BY_BYTE};
use super::*;
use crate::counting_sequence::CountingSequence;
use crate::redis::command::COMMAND_SUMMARIES;

const NOAUTH: &str = "-NOAUTH Authentication required.\r\n";
const WRONGPASS: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
const ABORT: &str = "-EXECABORT Transaction discarded because of previous errors.\r\n";
const NOT_IN_TRANSACTION: &str = "-ERR Command 'auth' not allowed inside a transaction\r\n";
/// Time until a test writes more: the server has executed what has arrived.
const PAUSE: Duration = Duration::from_millis(10);

/// A server with the principals `a` and `b`, which have tokens, and `c`, which has a certificate.
struct Principals {
    access: Access,
    tokens: [Secret; 3],
}

impl Principals {
    fn new() -> Principals {
        let tokens = [(); 3].map(|()| Secret::generate().unwrap());
        let table = |name, token: &Secret| {
            format!(
                "[[principal]]\nname='{name}'\nsha256=['{}']\n",
                token.hash()
            )
        };
        let tables = [
            table("a", &tokens[0]),
            table("b", &tokens[1]),
            "[[principal]]\nname='c'\n".to_owned(),
        ];
        Principals {
            access: Access::by_file(AccessFile::parse(&tables.concat()).unwrap()),
            tokens,
        }
    }

    /// Replaces the names of tokens in a line by the tokens.
    fn line(&self, line: &str) -> String {
        let names = ["TOKEN_A", "TOKEN_B", "TOKEN_WRONG"].into_iter();
        names
            .zip(&self.tokens)
            .fold(line.to_owned(), |line, (name, token)| {
                line.replace(name, token.expose())
            })
    }

    /// Sends pieces of bytes from a peer. Returns the answers, and who used a key.
    async fn play(
        &self,
        peer: ConnectionPeer,
        pieces: &[&[u8]],
        socket_bytes: usize,
    ) -> (String, Vec<String>) {
        play(&self.access, peer, pieces, socket_bytes).await
    }

    /// Sends lines from a peer at once.
    async fn play_lines(&self, peer: ConnectionPeer, lines: &[&str]) -> (String, Vec<String>) {
        let lines: String = lines.iter().map(|line| self.line(line) + "\r\n").collect();
        self.play(peer, &[lines.as_bytes()], AT_ONCE).await
    }
}

async fn play(
    access: &Access,
    peer: ConnectionPeer,
    pieces: &[&[u8]],
    socket_bytes: usize,
) -> (String, Vec<String>) {
    let sequence = CountingSequence::with_access(access.clone());
    let stop = CancellationToken::new();
    let (mut client_end, served) =
        spawn_connection_from(peer, sequence.clone(), &new_shared(), socket_bytes, stop);
    let (mut reader, mut writer) = tokio::io::split(&mut client_end);
    let writing = async {
        for piece in pieces {
            // The server may have closed the connection.
            let _ = writer.write_all(piece).await;
            sleep(PAUSE).await;
        }
        let _ = writer.shutdown().await;
    };
    let mut answers = String::new();
    let (_, read) = tokio::join!(writing, reader.read_to_string(&mut answers));
    read.unwrap();
    drop(client_end);
    served.await.unwrap();
    (answers, sequence.callers())
}

fn certified(identity: &str) -> ConnectionPeer {
    let identity = PeerIdentity::parse(identity).unwrap();
    let certificate = PeerCertificate::new(identity, Vec::new());
    ConnectionPeer::certified(([10, 0, 0, 9], 4).into(), certificate)
}

fn nameless() -> ConnectionPeer {
    ConnectionPeer::before_handshake(([10, 0, 0, 9], 4).into())
}

fn local() -> ConnectionPeer {
    ConnectionPeer::plaintext(([127, 0, 0, 1], 4).into())
}

/// Each kind of connection, and who it is without a token.
fn peers() -> [(ConnectionPeer, Option<&'static str>); 3] {
    [
        (nameless(), None),
        (certified("seqsvr://p/client/c"), Some("principal c")),
        (local(), Some("a program of this host")),
    ]
}

/// What a line of a pipeline does.
#[derive(Clone, Copy)]
enum Effect {
    Answers(&'static str),
    /// INCR by the principal with this name.
    Takes(&'static str),
    TakesByConnection,
    /// EXEC of one INCR.
    Executes(&'static str),
    /// GET.
    Reads(&'static str),
    /// SETNX of a key with a number.
    Sets(&'static str),
}

/// Returns the answers and the callers of a connection whose identity without a token is `initial`.
fn expected(lines: &[(&str, Effect)], initial: Option<&str>) -> (String, Vec<String>) {
    let (mut number, mut answers, mut callers) = (0, String::new(), Vec::new());
    for (_, effect) in lines {
        let mut by = |name: &str| callers.push(format!("principal {name}"));
        match effect {
            Effect::Answers(answer) => answers += answer,
            Effect::Takes(name) => {
                number += 1;
                by(name);
                answers += &format!(":{number}\r\n");
            }
            Effect::Executes(name) => {
                number += 1;
                by(name);
                answers += &format!("*1\r\n:{number}\r\n");
            }
            Effect::TakesByConnection => match initial {
                Some(initial) => {
                    number += 1;
                    callers.push(initial.to_owned());
                    answers += &format!(":{number}\r\n");
                }
                None => answers += NOAUTH,
            },
            Effect::Reads(name) => {
                by(name);
                answers += &format!("$1\r\n{number}\r\n");
            }
            Effect::Sets(name) => {
                by(name);
                answers += ":0\r\n";
            }
        }
    }
    (answers, callers)
}

/// Sends a pipeline in two pieces, cut at every place, and byte by byte, from each kind of peer.
async fn check_at_every_cut(lines: &[(&str, Effect)]) {
    let principals = Principals::new();
    let mut bytes = Vec::new();
    for (line, _) in lines {
        let line = principals.line(line);
        let words: Vec<&str> = line.split(' ').collect();
        bytes.extend(format!("*{}\r\n", words.len()).into_bytes());
        for word in words {
            bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
        }
    }
    for (peer, initial) in peers() {
        let expected = expected(lines, initial);
        for cut in 0..=bytes.len() {
            let (first, second) = bytes.split_at(cut);
            let pieces = [first, second];
            let played = principals.play(peer.clone(), &pieces, AT_ONCE).await;
            assert_eq!(played, expected, "cut at {cut}, {peer}");
        }
        let played = principals.play(peer.clone(), &[&bytes], BYTE_BY_BYTE).await;
        assert_eq!(played, expected, "byte by byte, {peer}");
    }
}

/// Plays the schedules of `session::identity`.
#[tokio::test(start_paused = true)]
async fn each_command_is_executed_by_the_identity_at_its_place() {
    check_at_every_cut(&[
        ("incr k", Effect::TakesByConnection),
        ("auth a TOKEN_A", Effect::Answers("+OK\r\n")),
        ("incr k", Effect::Takes("a")),
        ("get k", Effect::Reads("a")),
        ("auth default TOKEN_B", Effect::Answers("+OK\r\n")),
        ("incr k", Effect::Takes("b")),
        ("setnx k 5", Effect::Sets("b")),
        ("auth a TOKEN_WRONG", Effect::Answers(WRONGPASS)),
        ("incr k", Effect::Answers(NOAUTH)),
        ("get k", Effect::Answers(NOAUTH)),
        ("reset", Effect::Answers("+RESET\r\n")),
        ("incr k", Effect::TakesByConnection),
    ])
    .await;
}

/// A transaction is executed by one identity, and by none if AUTH, HELLO or RESET is in it.
#[tokio::test(start_paused = true)]
async fn transaction_is_executed_by_one_identity_or_not_at_all() {
    let [ok, queued] = ["+OK\r\n", "+QUEUED\r\n"].map(Effect::Answers);
    let [noauth, abort] = [NOAUTH, ABORT].map(Effect::Answers);
    check_at_every_cut(&[
        ("auth a TOKEN_A", ok),
        ("multi", ok),
        ("incr k", queued),
        ("exec", Effect::Executes("a")),
        ("multi", ok),
        ("incr k", queued),
        ("auth b TOKEN_B", Effect::Answers(NOT_IN_TRANSACTION)),
        ("incr k", queued),
        ("exec", abort),
        ("incr k", noauth),
        ("auth b TOKEN_B", ok),
        ("multi", ok),
        ("incr k", queued),
        (
            "hello 4 auth a TOKEN_A",
            Effect::Answers("-NOPROTO unsupported protocol version\r\n"),
        ),
        ("exec", abort),
        ("multi", noauth),
        ("exec", noauth),
        ("auth TOKEN_B", ok),
        ("multi", ok),
        ("incr k", queued),
        ("reset", Effect::Answers("+RESET\r\n")),
        ("incr k", Effect::TakesByConnection),
        ("auth b TOKEN_B", ok),
        ("multi", ok),
        ("incr k", queued),
        ("discard", ok),
        ("multi", ok),
        ("incr k", queued),
        ("exec", Effect::Executes("b")),
        ("auth b TOKEN_WRONG", Effect::Answers(WRONGPASS)),
        ("multi", noauth),
        ("incr k", noauth),
        ("exec", noauth),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn failed_auth_leaves_no_identity_in_any_form() {
    let principals = Principals::new();
    let setnames =
        ["\"a b\"", &"n".repeat(257)].map(|name| format!("hello 3 auth a TOKEN_A setname {name}"));
    let mut lines = vec![
        "auth",
        "auth a TOKEN_A more",
        "auth TOKEN_WRONG",
        "auth \"\"",
        "auth a \"\"",
        "auth default x",
        "auth a TOKEN_B",
        "auth c TOKEN_A",
        "auth A TOKEN_A",
        "auth \"\" TOKEN_A",
        "auth TOKEN_A a",
        "hello 3 auth a TOKEN_WRONG",
        "hello 3 auth b TOKEN_A",
        "hello 3 auth a",
        "hello 4",
        "hello 4 auth a TOKEN_A",
        "hello text auth a TOKEN_A",
        "hello 3 auth a TOKEN_A nosuch",
    ];
    lines.extend(setnames.iter().map(String::as_str));
    for line in lines {
        for (peer, initial) in peers() {
            let all = ["incr k", line, "incr k", "get k", "reset", "incr k"];
            let (answers, callers) = principals.play_lines(peer.clone(), &all).await;
            let of_initial =
                vec![initial.unwrap_or_default(); if initial.is_some() { 2 } else { 0 }];
            assert_eq!(callers, of_initial, "{line}, {peer}: {answers}");
            let refusals = if initial.is_some() { 2 } else { 4 };
            assert_eq!(
                answers.matches(NOAUTH).count(),
                refusals,
                "{line}: {answers}"
            );
            let all = ["auth b TOKEN_B", "incr k", line, "incr k"];
            let (answers, callers) = principals.play_lines(peer, &all).await;
            assert_eq!(callers, ["principal b"], "{line}: {answers}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn token_counts_with_its_name_or_without_one() {
    let principals = Principals::new();
    for line in [
        "auth TOKEN_A",
        "AUTH a TOKEN_A",
        "auth default TOKEN_A",
        "hello 3 auth a TOKEN_A",
        "hello 2 auth default TOKEN_A setname me",
    ] {
        for (peer, _) in peers() {
            let (answers, callers) = principals.play_lines(peer, &[line, "incr k"]).await;
            assert_eq!(callers, ["principal a"], "{line}: {answers}");
            assert!(answers.ends_with(":1\r\n"), "{line}: {answers}");
        }
    }
    let info = ["auth a TOKEN_A", "client info"];
    let (answers, _) = principals.play_lines(nameless(), &info).await;
    assert!(answers.contains(" user=a redir"), "{answers}");
    // Other machines could read a token without TLS.
    let routable = ConnectionPeer::plaintext(([10, 0, 0, 9], 4).into());
    let lines = ["incr k", "auth a TOKEN_A", "incr k"];
    let (answers, callers) = principals.play_lines(routable, &lines).await;
    assert_eq!(answers, [NOAUTH, WRONGPASS, NOAUTH].concat());
    assert!(callers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn connection_without_identity_may_only_get_one() {
    let principals = Principals::new();
    for summary in &COMMAND_SUMMARIES {
        let args = " 1".repeat(usize::from(summary.arity.unsigned_abs()) - 1);
        for line in [summary.name.to_owned(), format!("{}{args}", summary.name)] {
            let (answers, callers) = principals.play_lines(nameless(), &[&line]).await;
            let is_open = ["auth", "hello", "quit", "reset"].contains(&summary.name);
            // HELLO without AUTH needs an identity, and says what to do.
            assert_eq!(answers != NOAUTH, is_open, "{line}: {answers}");
            assert!(callers.is_empty(), "{line}");
        }
    }
    for line in ["nosuch k", "decr k", "set k 5 ex 10"] {
        let (answers, _) = principals.play_lines(nameless(), &[line]).await;
        assert_eq!(answers, NOAUTH, "{line}");
    }
    let (answers, _) = principals.play_lines(nameless(), &["hello 3"]).await;
    assert!(answers.starts_with("-NOAUTH HELLO must be"), "{answers}");
}

#[tokio::test(start_paused = true)]
async fn server_without_principals_reads_no_token() {
    let access = Access::by_role();
    let client = certified("seqsvr://p/client/x");
    for (peer, who) in [(client, "a client"), (local(), "a program of this host")] {
        let lines = b"auth default x\r\nauth bob x\r\nauth x\r\nhello 4\r\nincr k\r\n";
        let (answers, callers) = play(&access, peer, &[lines], AT_ONCE).await;
        assert_eq!(callers, [who], "{answers}");
        let begin = format!("+OK\r\n{WRONGPASS}-ERR AUTH <password> called without any");
        assert!(
            answers.starts_with(&begin) && answers.ends_with("\r\n:1\r\n"),
            "{answers}"
        );
    }
    let lines = b"auth default x\r\nhello 3 auth default x\r\nincr k\r\n";
    let (answers, callers) = play(&access, nameless(), &[lines], AT_ONCE).await;
    assert!(callers.is_empty(), "{answers}");
    let lines: Vec<&str> = answers.lines().collect();
    assert!(
        lines[0].starts_with("-NOAUTH this server takes no tokens"),
        "{answers}"
    );
    assert_eq!((lines[0], lines[2]), (lines[1], NOAUTH.trim_end()));
}

/// Serves a connection without a certificate to a server with principals.
fn spawn_nameless(
    principals: &Principals,
    shared: &Arc<RedisShared>,
    stop: CancellationToken,
) -> (DuplexStream, JoinHandle<&'static str>) {
    let sequence = CountingSequence::with_access(principals.access.clone());
    spawn_connection_from(nameless(), sequence, shared, AT_ONCE, stop)
}

/// Asserts that an answer arrives this many seconds after the connection began, and not earlier.
async fn expect_answer(client_end: &mut DuplexStream, began: Instant, answer: &str, seconds: u64) {
    assert_eq!(read_text(client_end, answer.len()).await, answer);
    assert_eq!(began.elapsed().as_secs(), seconds, "{answer}");
}

/// The commands after a wrong token wait for its answer; other connections do not.
#[tokio::test(start_paused = true)]
async fn wrong_token_is_answered_after_a_second_and_the_third_closes() {
    let (shared, principals) = (new_shared(), Principals::new());
    let spawn = || spawn_nameless(&principals, &shared, CancellationToken::new());
    let (mut client_end, served) = spawn();
    let began = Instant::now();
    let lines = "PING\r\nAUTH a\r\nPING\r\nHELLO 3 AUTH default b\r\nAUTH TOKEN_A\r\nPING\r\nRESET\r\nAUTH default c\r\nAUTH TOKEN_A\r\n";
    let sent = principals.line(lines);
    client_end.write_all(sent.as_bytes()).await.unwrap();
    expect_answer(&mut client_end, began, NOAUTH, 0).await;
    let (mut other_end, _other) = spawn();
    let sent = principals.line("AUTH TOKEN_B\r\n");
    other_end.write_all(sent.as_bytes()).await.unwrap();
    expect_answer(&mut other_end, began, "+OK\r\n", 0).await;
    expect_answer(&mut client_end, began, WRONGPASS, 1).await;
    expect_answer(&mut client_end, began, NOAUTH, 1).await;
    expect_answer(&mut client_end, began, WRONGPASS, 2).await;
    expect_answer(&mut client_end, began, "+OK\r\n+PONG\r\n+RESET\r\n", 2).await;
    expect_answer(&mut client_end, began, WRONGPASS, 3).await;
    let mut rest = String::new();
    client_end.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "");
    drop(client_end);
    assert_eq!(served.await.unwrap(), "too many wrong tokens");
}

/// Schedule: a caller sends a guess, infers from the missing answer that it is wrong, and connects
/// again. Its place among the connections is free only after the delay.
#[tokio::test(start_paused = true)]
async fn wrong_token_keeps_the_connection_of_a_peer_that_is_gone() {
    let began = Instant::now();
    let stop = CancellationToken::new();
    let (mut client_end, served) = spawn_nameless(&Principals::new(), &new_shared(), stop);
    client_end.write_all(b"PING\r\nAUTH a\r\n").await.unwrap();
    drop(client_end);
    served.await.unwrap();
    let elapsed = began.elapsed();
    assert!(elapsed >= WRONG_SECRET_DELAY, "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_the_delay_of_a_wrong_token() {
    let (shared, stop) = (new_shared(), CancellationToken::new());
    let (mut client_end, served) = spawn_nameless(&Principals::new(), &shared, stop.clone());
    let lines = b"PING\r\nAUTH a\r\nAUTH b\r\n";
    client_end.write_all(lines).await.unwrap();
    read_text(&mut client_end, NOAUTH.len()).await;
    let began = Instant::now();
    shared.begin_shutdown();
    stop.cancel();
    let mut answer = String::new();
    client_end.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, WRONGPASS.repeat(2));
    let elapsed = began.elapsed();
    assert!(elapsed < WRONG_SECRET_DELAY, "{elapsed:?}");
    drop(client_end);
    assert_eq!(served.await.unwrap(), "server shutdown");
}

/// Schedule: a stranger keeps its place among the connections with commands that need no identity.
#[tokio::test(start_paused = true)]
async fn connection_without_identity_is_closed_in_time() {
    let principals = Principals::new();
    let stop = CancellationToken::new;
    let (mut client_end, served) = spawn_nameless(&principals, &new_shared(), stop());
    let began = Instant::now();
    while client_end.write_all(b"RESET\r\nPING\r\n").await.is_ok() {
        sleep(Duration::from_secs(1)).await;
    }
    let elapsed = began.elapsed();
    assert!(
        elapsed > AUTH_TIMEOUT && elapsed < 2 * AUTH_TIMEOUT,
        "{elapsed:?}"
    );
    assert_eq!(served.await.unwrap(), "no identity in time");
    // A wrong token after a long time leaves the time for a right one.
    let (mut client_end, _served) = spawn_nameless(&principals, &new_shared(), stop());
    let auth = principals.line("AUTH TOKEN_A\r\n");
    for round in 0..2 {
        client_end.write_all(auth.as_bytes()).await.unwrap();
        assert_eq!(read_text(&mut client_end, 5).await, "+OK\r\n", "{round}");
        sleep(2 * AUTH_TIMEOUT).await;
        client_end.write_all(b"AUTH x\r\n").await.unwrap();
        assert_eq!(read_text(&mut client_end, WRONGPASS.len()).await, WRONGPASS);
        sleep(AUTH_TIMEOUT / 2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn connection_without_identity_holds_few_bytes() {
    let stop = CancellationToken::new();
    let (mut client_end, served) = spawn_nameless(&Principals::new(), &new_shared(), stop);
    let word = format!("$1000\r\n{}\r\n", "x".repeat(1_000));
    let request = format!("*100\r\n{}", word.repeat(READ_BUFFER_MAX / 800));
    client_end.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    client_end.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "-ERR Protocol error: unauthenticated\r\n");
    drop(client_end);
    assert_eq!(served.await.unwrap(), "too many bytes before the token");
}

/// Schedule: strangers send requests and read no answers, so that all connections hold the bytes
/// that all clients share. Nothing of theirs is counted, and late is late though bytes are unsent.
/// Only the answer to the third wrong token has its own time.
#[tokio::test(start_paused = true)]
async fn stranger_that_reads_nothing_takes_no_shared_bytes() {
    let (args, escaped) = ("x".repeat(900), "\\x01".repeat(64));
    for (request, then) in [
        ("PING\r\n", ""),
        ("PING\r\n", "AUTH x\r\n"),
        ("HELLO\r\n", ""),
        (&*format!("HELLO 3 \"{escaped}\"\r\n"), ""),
        (&*format!("PING {args}\r\n"), "PING"),
        (&*format!("HELLO 3 {args}\r\n"), "PING"),
    ] {
        for socket_bytes in [1_000, 1 << 14, AT_ONCE] {
            let (shared, stop) = (new_shared(), CancellationToken::new());
            let principals = Principals::new();
            let sequence = CountingSequence::with_access(principals.access);
            let (client_end, served) =
                spawn_connection_from(nameless(), sequence, &shared, socket_bytes, stop);
            let (reader, mut writer) = tokio::io::split(client_end);
            let began = Instant::now();
            let bytes = request.repeat(600) + then;
            let writing = tokio::spawn(async move {
                while writer.write_all(bytes.as_bytes()).await.is_ok() {
                    // The paused clock moves only while nothing else does.
                    sleep(PAUSE).await;
                }
            });
            let mut held_max = 0;
            while !served.is_finished() && began.elapsed() < 2 * AUTH_TIMEOUT {
                held_max = held_max.max(shared.buffers.held_bytes());
                sleep(Duration::from_millis(10)).await;
            }
            let schedule = format!("{request}{then}, {socket_bytes}");
            assert_eq!(held_max, 0, "{schedule}");
            let has_ended = served.is_finished();
            assert!(has_ended || then.starts_with("AUTH"), "{schedule}");
            drop((reader, served));
            writing.await.unwrap();
        }
    }
}

/// Schedule: a stranger sends empty lines, so that there is always something to read.
#[tokio::test(start_paused = true)]
async fn busy_connection_without_identity_is_closed_in_time() {
    let sequence = CountingSequence::with_access(Principals::new().access);
    let stream = tokio::io::join(tokio::io::repeat(b'\n'), tokio::io::sink());
    let (shared, stop) = (new_shared(), CancellationToken::new());
    let served = serve_stream(nameless(), sequence, &shared, stream, stop);
    let began = Instant::now();
    while !served.is_finished() && began.elapsed() < 2 * AUTH_TIMEOUT {
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert!(served.is_finished());
    assert!(began.elapsed() > AUTH_TIMEOUT);
    assert_eq!(served.await.unwrap(), "no identity in time");
}
