//! Of the models made from nothing, the shape that a recipe may give.

#[path = "../../src/scratch/shape.rs"]
mod shape;

pub use shape::Shape;
