//! Stream of bytes at one end of a connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::network_state::{InFlightSegment, TcpSegment};
use super::sim_network::SimNetwork;

/// One end of a connection; a drop closes it.
pub(super) struct SimStream {
    net: SimNetwork,
    id: u64,
    end: usize,
}

impl SimStream {
    pub(super) fn new_connecting(net: SimNetwork, id: u64) -> SimStream {
        SimStream { net, id, end: 0 }
    }

    pub(super) fn new_accepted(net: SimNetwork, id: u64) -> SimStream {
        SimStream { net, id, end: 1 }
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        let (id, end) = (self.id, self.end);
        let mut state = self.net.lock_state();
        let Some(connection) = state.connections.get_mut(&id) else {
            return;
        };
        connection.is_closed[end] = true;
        let direction = &connection.directions[end];
        // A kernel resets a connection that is closed with unread bytes.
        let has_unread = !connection.directions[1 - end].unread_segments.is_empty();
        let is_silent = direction.is_reset || (direction.sent_end && !has_unread);
        if connection.is_closed == [true; 2] && is_silent {
            state.connections.remove(&id);
            return;
        }
        if !is_silent {
            let segment = match has_unread {
                true => TcpSegment::Reset,
                false => TcpSegment::End,
            };
            let segment_in_flight = InFlightSegment {
                connection: id,
                from: end,
                segment,
            };
            let machine = connection.ends[end];
            match &mut state.ending_process {
                Some((ending_process, closing_segments)) if *ending_process == machine => {
                    closing_segments.push(segment_in_flight)
                }
                _ => state.send_or_hold(segment_in_flight),
            }
        }
    }
}

impl AsyncRead for SimStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (id, end) = (self.id, self.end);
        let mut state = self.net.lock_state();
        let (seed, conditions) = (state.seed, state.conditions);
        let Some(connection) = state.connections.get_mut(&id) else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        };
        let direction = &mut connection.directions[1 - end];
        if direction.is_reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let draw = seqsvr_core::sim::mix_bits(
            seed ^ id,
            direction.segment_count ^ direction.unread_bytes as u64,
        );
        let is_short = draw % 1_000 < conditions.short_read_per_mille;
        let mut wanted = match is_short {
            true => 1 + (draw >> 32) as usize % 64,
            false => usize::MAX,
        };
        let mut read = 0;
        while wanted > 0
            && buf.remaining() > 0
            && let Some(first) = direction.unread_segments.front()
        {
            let rest = &first[direction.read_offset..];
            let n = rest.len().min(buf.remaining()).min(wanted);
            buf.put_slice(&rest[..n]);
            let is_done = n == rest.len();
            direction.read_offset += n;
            read += n;
            wanted -= n;
            if is_done {
                direction.unread_segments.pop_front();
                direction.read_offset = 0;
            }
        }
        if read > 0 {
            direction.unread_bytes -= read;
            let writer_waker = direction.writer_waker.take();
            drop(state);
            if let Some(writer_waker) = writer_waker {
                writer_waker.wake();
            }
            return Poll::Ready(Ok(()));
        }
        if direction.end_arrived {
            return Poll::Ready(Ok(()));
        }
        direction.reader_waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let (id, end) = (self.id, self.end);
        let mut state = self.net.lock_state();
        let window = state.conditions.window;
        let Some(connection) = state.connections.get_mut(&id) else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        };
        let direction = &mut connection.directions[end];
        if direction.is_reset || direction.sent_end {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let n = window.saturating_sub(direction.unread_bytes).min(buf.len());
        if n == 0 && !buf.is_empty() {
            direction.writer_waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        direction.unread_bytes += n;
        let segment = TcpSegment::Data(buf[..n].to_vec());
        state.send_or_hold(InFlightSegment {
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
        let mut state = self.net.lock_state();
        if let Some(connection) = state.connections.get_mut(&id) {
            let direction = &mut connection.directions[end];
            if !direction.sent_end && !direction.is_reset {
                direction.sent_end = true;
                state.send_or_hold(InFlightSegment {
                    connection: id,
                    from: end,
                    segment: TcpSegment::End,
                });
            }
        }
        Poll::Ready(Ok(()))
    }
}
