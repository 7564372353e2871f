//! SET of 0 and of a start value: OK for a key without a number, and never lower than its number.

use super::transactions::{AT_ONCE, BYTE_BY_BYTE, answers_of};
use crate::counting_sequence::CountingSequence;

#[tokio::test]
async fn start_value_is_set_once() {
    let current =
        "-ERR the number is 7 already, above 0: numbers only rise, and nothing was changed";
    for socket_bytes in [AT_ONCE, BYTE_BY_BYTE] {
        let sequence = CountingSequence::default();
        let mut lines = Vec::new();
        let mut expected = String::new();
        for (line, answer) in [
            ("set a 0", "+OK"),
            ("setnx a 0", ":1"),
            ("SET a 0 nx", "+OK"),
            ("get a", "$-1"),
            ("setnx a 6", ":1"),
            ("setnx a 9", ":0"),
            ("set a 9 NX", "$-1"),
            ("incr a", ":7"),
            ("set a 0", current),
            ("setnx a 0", ":0"),
            ("set a 0 NX", "$-1"),
            ("set b 5 NX", "+OK"),
            ("incr b", ":6"),
            ("setnx fail 5", "-ERR this key fails"),
            ("set fail 0", "-ERR this key fails"),
            (
                "setnx a abc",
                "-ERR value is not an integer or out of range: a key here holds a number, and SET takes one from 0 to 2^63-1",
            ),
            (
                "setnx old 5",
                "-TRYAGAIN an AllocSvr of an older version owns this key: it does not know SETNX; retry after its upgrade",
            ),
            ("set old 5", "+OK"),
            ("multi", "+OK"),
            ("setnx c 3", "+QUEUED"),
            ("setnx c 4", "+QUEUED"),
            ("incr c", "+QUEUED"),
            ("exec", "*3\r\n:1\r\n:0\r\n:4"),
        ] {
            lines.push(line);
            expected += answer;
            expected += "\r\n";
        }
        assert_eq!(answers_of(&sequence, &lines, socket_bytes).await, expected);
    }
}
