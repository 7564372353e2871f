//! Stream of bytes at one end of a connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Net;
use super::state::{Flight, Segment};

/// One end of a connection; a drop closes it.
pub(super) struct Stream {
    /// Network; None: the connection is not accepted yet.
    net: Option<Net>,
    id: u64,
    end: usize,
}

impl Stream {
    pub(super) fn connected(net: Net, id: u64) -> Stream {
        Stream {
            net: Some(net),
            id,
            end: 0,
        }
    }

    pub(super) fn unclaimed(id: u64) -> Stream {
        Stream {
            net: None,
            id,
            end: 1,
        }
    }

    pub(super) fn claim(self, net: Net) -> Stream {
        let id = self.id;
        Stream {
            net: Some(net),
            id,
            end: 1,
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let Some(net) = self.net.take() else { return };
        let (id, end) = (self.id, self.end);
        let mut state = net.lock();
        let Some(connection) = state.connections.get_mut(&id) else {
            return;
        };
        connection.is_dropped[end] = true;
        let way = &connection.ways[end];
        // A kernel resets a connection that is closed with unread bytes.
        let has_unread = !connection.ways[1 - end].arrived.is_empty();
        let is_silent = way.is_reset || (way.sent_end && !has_unread);
        if connection.is_dropped == [true; 2] && is_silent {
            state.connections.remove(&id);
            return;
        }
        if !is_silent {
            let segment = match has_unread {
                true => Segment::Reset,
                false => Segment::End,
            };
            let flight = Flight {
                connection: id,
                from: end,
                segment,
            };
            let machine = connection.ends[end];
            match &mut state.ending {
                Some((ending, left)) if *ending == machine => left.push(flight),
                _ => state.send(flight),
            }
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (id, end) = (self.id, self.end);
        let Some(net) = &self.net else {
            return Poll::Pending;
        };
        let mut state = net.lock();
        let (seed, conduct) = (state.seed, state.conduct);
        let Some(connection) = state.connections.get_mut(&id) else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        };
        let way = &mut connection.ways[1 - end];
        if way.is_reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let draw = seqsvr_core::sim::mix(seed ^ id, way.segments ^ way.unread as u64);
        let is_short = draw % 1_000 < conduct.short_read_per_mille;
        let mut wanted = match is_short {
            true => 1 + (draw >> 32) as usize % 64,
            false => usize::MAX,
        };
        let mut read = 0;
        while wanted > 0
            && buf.remaining() > 0
            && let Some(first) = way.arrived.front()
        {
            let rest = &first[way.offset..];
            let n = rest.len().min(buf.remaining()).min(wanted);
            buf.put_slice(&rest[..n]);
            let is_done = n == rest.len();
            way.offset += n;
            read += n;
            wanted -= n;
            if is_done {
                way.arrived.pop_front();
                way.offset = 0;
            }
        }
        if read > 0 {
            way.unread -= read;
            let writer = way.writer.take();
            drop(state);
            if let Some(writer) = writer {
                writer.wake();
            }
            return Poll::Ready(Ok(()));
        }
        if way.has_ended {
            return Poll::Ready(Ok(()));
        }
        way.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let (id, end) = (self.id, self.end);
        let Some(net) = &self.net else {
            return Poll::Pending;
        };
        let mut state = net.lock();
        let window = state.conduct.window;
        let Some(connection) = state.connections.get_mut(&id) else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        };
        let way = &mut connection.ways[end];
        if way.is_reset || way.sent_end {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let n = window.saturating_sub(way.unread).min(buf.len());
        if n == 0 && !buf.is_empty() {
            way.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        way.unread += n;
        let segment = Segment::Data(buf[..n].to_vec());
        state.send(Flight {
            connection: id,
            from: end,
            segment,
        });
        Poll::Ready(Ok(n))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (id, end) = (self.id, self.end);
        if let Some(net) = &self.net {
            let mut state = net.lock();
            if let Some(connection) = state.connections.get_mut(&id) {
                let way = &mut connection.ways[end];
                if !way.sent_end && !way.is_reset {
                    way.sent_end = true;
                    state.send(Flight {
                        connection: id,
                        from: end,
                        segment: Segment::End,
                    });
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}
