//! The tile unit itself: 32 x 32 values of a product at a time.

use std::arch::asm;
use std::marker::PhantomData;

use super::Parts;
use super::pack::Block;

/// Rows and columns of a square.
pub const SIDE: usize = 32;

/// 32 x 32 sums, row-major.
#[repr(C, align(64))]
pub struct Square([f32; SIDE * SIDE]);

impl Square {
    /// All zeros.
    pub const ZERO: Self = Self([0.0; SIDE * SIDE]);

    /// One row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.0[row * SIDE..(row + 1) * SIDE]
    }
}

/// Asks for the unit: the processor must have it with the instructions that packing uses, and Linux must grant its state.
pub fn request() -> bool {
    /// `arch_prctl`: ask for a state component.
    const REQUEST_COMPONENT: libc::c_long = 0x1023;
    /// The tiles' data.
    const TILE_DATA: libc::c_long = 18;
    let has = std::arch::x86_64::__cpuid_count(7, 0).edx;
    let (bf16, tiles) = (1 << 22, 1 << 24);
    has & bf16 != 0
        && has & tiles != 0
        && std::is_x86_feature_detected!("avx512f")
        && std::is_x86_feature_detected!("avx512bw")
        && std::is_x86_feature_detected!("avx512vl")
        && std::is_x86_feature_detected!("avx512bf16")
        // SAFETY: asks for a permission; touches no memory.
        && unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST_COMPONENT, TILE_DATA) } == 0
}

#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// This thread's tile registers, ready for 16 rows of 64 bytes each; given back when dropped.
pub struct Tiles(PhantomData<*const ()>);

impl Tiles {
    /// Configures the registers. Call only where the unit was granted.
    pub fn configure() -> Self {
        let mut configuration =
            Configuration { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        configuration.row_bytes[..8].fill(64);
        configuration.rows[..8].fill(16);
        // SAFETY: 64 bytes of a valid configuration; compiled code never uses the tile registers itself.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const configuration, options(nostack, readonly)) };
        Self(PhantomData)
    }

    /// `square = left right`, each two panels of `depth` blocks.
    #[expect(clippy::unused_self, reason = "only configured registers can multiply")]
    pub fn multiply(&self, left: &[Block], right: &[Block], depth: usize, parts: Parts, square: &mut Square) {
        assert!(depth > 0 && left.len() >= 2 * depth && right.len() >= 2 * depth, "panels are too short");
        match parts {
            Parts::One => multiply_one(left, right, depth, square),
            Parts::Three => multiply_three(left, right, depth, square),
        }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: gives the registers back.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}

/// Sums in tmm0 to tmm3, left tiles in tmm4 and tmm5, right ones in tmm6 and tmm7. `$body` reads from `{left0}`, `{left1}`,
/// `{right0}`, `{right1}` with rows `{row}` bytes apart; low tiles stand 1024 bytes after high ones.
macro_rules! sum_blocks {
    ($left:expr, $right:expr, $depth:expr, $square:expr, $($body:literal),+ $(,)?) => {{
        let panel = $depth * size_of::<Block>();
        let (left, right) = ($left.as_ptr().cast::<u8>(), $right.as_ptr().cast::<u8>());
        // SAFETY: `Tiles::multiply` checked that both operands hold two panels of `depth` blocks; a square holds 32 rows of
        // 128 bytes; the registers are configured, and declared as overwritten.
        unsafe {
            asm!(
                "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
                "2:",
                $($body,)+
                "add {left0}, 2048", "add {left1}, 2048", "add {right0}, 2048", "add {right1}, 2048",
                "dec {count}",
                "jnz 2b",
                "tilestored [{out} + {out_row}], tmm0",
                "tilestored [{out} + {out_row} + 64], tmm1",
                "tilestored [{out} + {out_row} + 2048], tmm2",
                "tilestored [{out} + {out_row} + 2112], tmm3",
                left0 = inout(reg) left => _,
                left1 = inout(reg) left.add(panel) => _,
                right0 = inout(reg) right => _,
                right1 = inout(reg) right.add(panel) => _,
                count = inout(reg) $depth => _,
                row = in(reg) 64_usize,
                out = in(reg) $square.0.as_mut_ptr(),
                out_row = in(reg) 128_usize,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }};
}

fn multiply_one(left: &[Block], right: &[Block], depth: usize, square: &mut Square) {
    sum_blocks!(
        left,
        right,
        depth,
        square,
        "tileloadd tmm4, [{left0} + {row}]",
        "tileloadd tmm6, [{right0} + {row}]",
        "tdpbf16ps tmm0, tmm4, tmm6",
        "tileloadd tmm7, [{right1} + {row}]",
        "tdpbf16ps tmm1, tmm4, tmm7",
        "tileloadd tmm5, [{left1} + {row}]",
        "tdpbf16ps tmm2, tmm5, tmm6",
        "tdpbf16ps tmm3, tmm5, tmm7",
    );
}

/// high low, then high high, then low high: eight loads for twelve products.
fn multiply_three(left: &[Block], right: &[Block], depth: usize, square: &mut Square) {
    sum_blocks!(
        left,
        right,
        depth,
        square,
        "tileloadd tmm4, [{left0} + {row}]",
        "tileloadd tmm6, [{right0} + {row} + 1024]",
        "tdpbf16ps tmm0, tmm4, tmm6",
        "tileloadd tmm7, [{right1} + {row} + 1024]",
        "tdpbf16ps tmm1, tmm4, tmm7",
        "tileloadd tmm5, [{left1} + {row}]",
        "tdpbf16ps tmm2, tmm5, tmm6",
        "tdpbf16ps tmm3, tmm5, tmm7",
        "tileloadd tmm6, [{right0} + {row}]",
        "tdpbf16ps tmm0, tmm4, tmm6",
        "tileloadd tmm7, [{right1} + {row}]",
        "tdpbf16ps tmm1, tmm4, tmm7",
        "tdpbf16ps tmm2, tmm5, tmm6",
        "tdpbf16ps tmm3, tmm5, tmm7",
        "tileloadd tmm4, [{left0} + {row} + 1024]",
        "tdpbf16ps tmm0, tmm4, tmm6",
        "tdpbf16ps tmm1, tmm4, tmm7",
        "tileloadd tmm5, [{left1} + {row} + 1024]",
        "tdpbf16ps tmm2, tmm5, tmm6",
        "tdpbf16ps tmm3, tmm5, tmm7",
    );
}
