//! TTL and its kin, STRLEN, OBJECT, TIME, ROLE and WAIT, with the answers of Valkey 9.1.

use super::transactions::{AT_ONCE, answers_of};
use crate::counting_sequence::CountingSequence;

#[tokio::test]
async fn properties_of_a_key_are_answered_as_valkey_does() {
    let sequence = CountingSequence::default();
    let (mut lines, mut expected) = (vec!["set k 100"], "+OK\r\n".to_owned());
    for (line, answer) in [
        ("ttl k", ":-1"),
        ("pttl k", ":-1"),
        ("expiretime k", ":-1"),
        ("pexpiretime k", ":-1"),
        ("ttl none", ":-2"),
        ("pttl none", ":-2"),
        ("expiretime none", ":-2"),
        ("pexpiretime none", ":-2"),
        ("persist k", ":0"),
        ("persist none", ":0"),
        ("strlen k", ":3"),
        ("strlen none", ":0"),
        ("touch k none k", ":2"),
        ("object encoding k", "$3\r\nint"),
        ("object encoding none", "$-1"),
        ("object refcount k", ":1"),
        ("object refcount none", "$-1"),
        (
            "object foo k",
            "-ERR unknown subcommand 'foo'. Try OBJECT HELP.",
        ),
        ("role", "*3\r\n$6\r\nmaster\r\n:0\r\n*0"),
        ("wait 0 0", ":0"),
        ("wait 1 10", ":0"),
        ("wait 1 -1", "-ERR timeout is negative"),
        ("ttl fail", "-ERR this key fails"),
        ("incr k", ":101"),
    ] {
        lines.push(line);
        expected += answer;
        expected += "\r\n";
    }
    assert_eq!(answers_of(&sequence, &lines, AT_ONCE).await, expected);
    let time = answers_of(&sequence, &["time"], AT_ONCE).await;
    let parts: Vec<&str> = time.split("\r\n").collect();
    let ["*2", "$10", seconds, _, micros, ""] = parts[..] else {
        panic!("{time}");
    };
    assert!(seconds.parse::<u64>().unwrap() > 1_700_000_000, "{time}");
    assert!(micros.parse::<u64>().unwrap() < 1_000_000, "{time}");
}
