// SPDX-License-Identifier: Apache-2.0
// The panels, in the order in which they stand.
export const PANEL_NAMES =
    ["start", "model", "pairs", "scalings", "decay", "precision", "attention", "image", "added", "cache", "compare", "lab", "take"];
