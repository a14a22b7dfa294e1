//! How ranks without MPI find each other: a star of TCP connections around the first, for the small messages beside NCCL's sums, and a
//! watch that ends a rank when another is lost.
//!
//! As torchrun's own store it trusts its network: use it within a cluster only.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Group, Place};
use crate::error::{Error, Fault, Result};

/// How long ranks wait for each other at the start: loading a program on many machines takes its time.
const PATIENCE: Duration = Duration::from_mins(5);
const PAUSE: Duration = Duration::from_millis(50);
/// Opens every connection, then rank and purpose.
const MAGIC: &[u8; 8] = b"topalig1";
/// Said by a rank that ends in order.
const GOODBYE: u8 = b'.';
const DEFAULT_PORT: u16 = 29500;

/// Told the number of a rank that is lost.
type OnLoss = Arc<dyn Fn(usize) + Send + Sync>;

/// See the module.
pub(super) struct Star {
    rank: usize,
    size: usize,
    /// To every other rank, by rank, at the first; to the first, at every other.
    links: Mutex<Vec<TcpStream>>,
    watches: Mutex<Vec<TcpStream>>,
    /// Whether this rank has ended by itself: what its own watches then see is no loss.
    has_parted: Arc<AtomicBool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Message,
    Watch,
}

impl Star {
    /// Connects the ranks at the address that torchrun's variables name, one port above its own store. A lost rank ends this process.
    ///
    /// # Errors
    /// A [`Fault`] if no address is known or not every rank comes.
    #[cfg_attr(not(feature = "nccl"), expect(dead_code, reason = "only NCCL needs it; tests call `open`"))]
    pub(super) fn of_process(place: Place) -> Result<Self> {
        let (host, port) = address(place, |name| std::env::var(name).ok())?;
        let on_loss: OnLoss = Arc::new(|rank| {
            eprintln!("error: rank {rank} is lost; the run ends, and --resume goes on from its last checkpoint");
            std::process::exit(1);
        });
        Self::open((place.rank, place.size), (&host, port), PATIENCE, &on_loss)
    }

    fn open((rank, size): (usize, usize), address: (&str, u16), patience: Duration, on_loss: &OnLoss) -> Result<Self> {
        let deadline = Instant::now() + patience;
        let (links, watches) = if rank == 0 {
            welcome(size, address, deadline)?
        } else {
            let link = join(rank, Purpose::Message, address, deadline)?;
            (vec![link], vec![join(rank, Purpose::Watch, address, deadline)?])
        };
        let has_parted = Arc::new(AtomicBool::new(false));
        for (index, watched) in watches.iter().enumerate() {
            let other = if rank == 0 { index + 1 } else { 0 };
            let (mut stream, on_loss) =
                (watched.try_clone().map_err(|error| lost(other, &error))?, Arc::clone(on_loss));
            let has_parted = Arc::clone(&has_parted);
            std::thread::spawn(move || {
                let mut said = [0];
                let is_lost = stream.read_exact(&mut said).is_err() || said != [GOODBYE];
                if is_lost && !has_parted.load(Ordering::SeqCst) {
                    on_loss(other);
                }
            });
        }
        Ok(Self { rank, size, links: Mutex::new(links), watches: Mutex::new(watches), has_parted })
    }
}

/// Host and port of the rendezvous.
fn address(place: Place, variable: impl Fn(&str) -> Option<String>) -> Result<(String, u16)> {
    let host = match variable("MASTER_ADDR") {
        Some(host) => host,
        None if place.local_size == Some(place.size) => "127.0.0.1".to_owned(),
        None => {
            return Err(Fault::new("`MASTER_ADDR` is not set: the ranks cannot find each other")
                .hint("set it to the name of the first rank's machine, on every rank")
                .into());
        }
    };
    let port = match variable("MASTER_PORT") {
        None => DEFAULT_PORT,
        Some(text) => text.parse().map_err(|_| Fault::new("no port").at("MASTER_PORT").got(text))?,
    };
    // torchrun's own store listens at the port itself.
    let port = port.checked_add(1).ok_or_else(|| Fault::new("no port above it").at("MASTER_PORT").got(port))?;
    Ok((host, port))
}

/// Accepts both connections of every other rank.
fn welcome(size: usize, (host, port): (&str, u16), deadline: Instant) -> Result<(Vec<TcpStream>, Vec<TcpStream>)> {
    let fail = |error: std::io::Error| {
        Fault::new(format!("the first rank cannot listen: {error}"))
            .at(format!("{host}:{port}"))
            .hint("choose another MASTER_PORT")
    };
    let listener = TcpListener::bind(("0.0.0.0", port)).map_err(fail)?;
    listener.set_nonblocking(true).map_err(fail)?;
    let mut slots: [Vec<Option<TcpStream>>; 2] = std::array::from_fn(|_| (1..size).map(|_| None).collect());
    while slots.iter().flatten().any(Option::is_none) {
        let Ok((stream, _)) = listener.accept() else {
            if Instant::now() > deadline {
                let missing: Vec<String> =
                    (1..size).filter(|rank| slots[0][rank - 1].is_none()).map(|rank| rank.to_string()).collect();
                return Err(Fault::new("not every rank came").got(format!("no rank {}", missing.join(", "))).into());
            }
            std::thread::sleep(PAUSE);
            continue;
        };
        // Whoever is no rank of this run is turned away.
        if let Some((rank, purpose)) = hello(&stream)
            && let Some(slot) = rank.checked_sub(1).and_then(|index| slots[purpose as usize].get_mut(index))
        {
            *slot = Some(stream);
        }
    }
    let [links, watches] = slots.map(|streams| streams.into_iter().flatten().collect());
    Ok((links, watches))
}

/// Reads who calls and why.
fn hello(mut stream: &TcpStream) -> Option<(usize, Purpose)> {
    stream.set_nonblocking(false).ok()?;
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let mut bytes = [0; 13];
    stream.read_exact(&mut bytes).ok()?;
    stream.set_read_timeout(None).ok()?;
    let purpose = if bytes[12] == 0 { Purpose::Message } else { Purpose::Watch };
    let rank = u32::from_le_bytes(bytes[8..12].try_into().ok()?) as usize;
    bytes.starts_with(MAGIC).then_some((rank, purpose))
}

/// Calls the first rank until it listens.
fn join(rank: usize, purpose: Purpose, (host, port): (&str, u16), deadline: Instant) -> Result<TcpStream> {
    loop {
        let outcome = (host, port).to_socket_addrs().and_then(|mut addresses| {
            let address = addresses.next().ok_or_else(|| std::io::Error::other("no such host"))?;
            let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
            stream.set_nodelay(true)?;
            stream.write_all(&[MAGIC.as_slice(), &(rank as u32).to_le_bytes(), &[purpose as u8]].concat())?;
            Ok(stream)
        });
        match outcome {
            Ok(stream) => return Ok(stream),
            Err(error) if Instant::now() > deadline => {
                return Err(Fault::new(format!("the first rank cannot be reached: {error}"))
                    .at(format!("{host}:{port}"))
                    .into());
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

fn lost(rank: usize, error: &std::io::Error) -> Error {
    Error::Failed(format!("rank {rank} is lost: {error}"))
}

fn send(mut stream: &TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(&(bytes.len() as u64).to_le_bytes())?;
    stream.write_all(bytes)
}

fn receive(mut stream: &TcpStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 8];
    stream.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    let mut bytes = Vec::new();
    // Grows with what arrives, whatever length was announced.
    std::io::Read::take(stream, length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == length { Ok(bytes) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) }
}

impl Group for Star {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn sum_f32(&self, _: &mut [f32]) -> Result<()> {
        Err(Fault::new("gradients on the CPU are summed by MPI, and NCCL sums on NVIDIA GPUs only")
            .hint("choose a CUDA device, or build with `--features mpi` and start with mpirun")
            .into())
    }

    fn gather(&self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let at = |index: usize| if self.rank == 0 { index + 1 } else { 0 };
        if self.rank > 0 {
            let exchange = |link: &TcpStream| {
                send(link, own)?;
                (0..self.size).map(|_| receive(link)).collect()
            };
            return links.first().map_or_else(|| Ok(Vec::new()), exchange).map_err(|error| lost(0, &error));
        }
        let mut all = vec![own.to_vec()];
        for (index, link) in links.iter().enumerate() {
            all.push(receive(link).map_err(|error| lost(at(index), &error))?);
        }
        for (index, link) in links.iter().enumerate() {
            all.iter().try_for_each(|bytes| send(link, bytes)).map_err(|error| lost(at(index), &error))?;
        }
        Ok(all)
    }

    fn leave(&self, status: u8) {
        // Without a goodbye the others know that something went wrong.
        if status == 0 {
            for mut watch in self.watches.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                let _ = watch.write_all(&[GOODBYE]);
            }
        }
    }
}

/// The watching threads hold the connections too: they are closed for all.
impl Drop for Star {
    fn drop(&mut self) {
        self.has_parted.store(true, Ordering::SeqCst);
        for watch in self.watches.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = watch.shutdown(Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::rank::Launcher;

    fn free_port() -> u16 {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    }

    /// Runs `work` on a thread for each rank; what the watches of all ranks saw lost.
    fn with_ranks(size: usize, work: impl Fn(Star) + Sync) -> Vec<(usize, usize)> {
        let port = free_port();
        let (sender, losses) = mpsc::channel();
        std::thread::scope(|scope| {
            for rank in 0..size {
                let (sender, work) = (Mutex::new(sender.clone()), &work);
                scope.spawn(move || {
                    let on_loss: OnLoss = Arc::new(move |other| sender.lock().unwrap().send((rank, other)).unwrap());
                    work(Star::open((rank, size), ("127.0.0.1", port), Duration::from_secs(20), &on_loss).unwrap());
                });
            }
        });
        drop(sender);
        losses.iter().collect()
    }

    #[test]
    fn every_rank_gets_what_every_rank_gave_and_parts_in_order() {
        let losses = with_ranks(3, |star| {
            for round in 0..3_usize {
                let given = |rank: usize| vec![rank as u8; rank * 70_000 + round];
                let all = star.gather(&given(star.rank())).unwrap();
                assert_eq!(all, [given(0), given(1), given(2)]);
            }
            let group: &dyn Group = &star;
            assert_eq!(group.from_first(|| Ok("made once".to_owned())).unwrap(), "made once");
            assert!(group.any(star.rank() == 2).unwrap());
            assert_eq!(group.exchange(star.rank()).unwrap(), [0, 1, 2]);
            group.agree("settings", "same").unwrap();
            let error = group.agree("settings", if star.rank() == 1 { "other" } else { "same" }).unwrap_err();
            assert!(error.to_string().contains("rank 1"), "{error}");
            star.leave(0);
        });
        assert_eq!(losses, []);
    }

    #[test]
    fn a_rank_that_goes_without_a_word_is_noticed_by_the_first_and_the_first_by_all() {
        let mut losses = with_ranks(3, |star| match star.rank() {
            2 => star.leave(1),
            _ => std::thread::sleep(Duration::from_millis(300)),
        });
        losses.sort_unstable();
        assert!(losses.contains(&(0, 2)), "{losses:?}");
    }

    #[test]
    fn a_rank_that_never_comes_ends_the_wait_with_its_number() {
        let on_loss: OnLoss = Arc::new(|_| {});
        let error = Star::open((0, 2), ("127.0.0.1", free_port()), Duration::from_millis(100), &on_loss).err().unwrap();
        assert!(error.to_string().contains("no rank 1"), "{error}");
        let error = Star::open((1, 2), ("127.0.0.1", free_port()), Duration::from_millis(100), &on_loss).err().unwrap();
        assert!(error.to_string().contains("cannot be reached"), "{error}");
    }

    #[test]
    fn the_meeting_point_is_beside_torchruns_store() {
        let place = |local_size| Place { rank: 1, size: 4, local_rank: 1, local_size, launcher: Launcher::Torchrun };
        let known = |name: &str| match name {
            "MASTER_ADDR" => Some("node-1".to_owned()),
            "MASTER_PORT" => Some("4000".to_owned()),
            _ => None,
        };
        assert_eq!(address(place(Some(2)), known).unwrap(), ("node-1".to_owned(), 4001));
        assert_eq!(address(place(Some(4)), |_| None).unwrap(), ("127.0.0.1".to_owned(), 29501));
        assert!(address(place(Some(2)), |_| None).unwrap_err().to_string().contains("MASTER_ADDR"));
    }
}
