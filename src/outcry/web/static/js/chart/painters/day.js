/* One session, painted in z-order. */

import { paintBalance } from "./balance.js";
import { paintBlocks } from "./blocks.js";
import { paintCandles } from "./candles.js";
import { paintEnds } from "./ends.js";
import { paintLetters } from "./letters.js";
import { paintNight } from "./overnight.js";
import { paintPath } from "./path.js";
import { paintPoor } from "./poor.js";
import { paintSingles } from "./singles.js";
import { paintControl, paintValue } from "./value.js";
import { paintVolume } from "./volume.js";

export function paintDay(pen, g, day, look) {
  paintNight(pen, g, day, look);
  paintValue(pen, g, day, look);
  paintVolume(pen, g, day, look);
  paintControl(pen, g, day, look);
  paintSingles(pen, g, day, look);
  if (look.mode === "letters") paintLetters(pen, g, day, look);
  if (look.mode === "blocks") paintBlocks(pen, g, day, look);
  paintCandles(pen, g, day, look);
  paintBalance(pen, g, day, look);
  paintPoor(pen, g, day, look);
  paintPath(pen, g, day, look);
  paintEnds(pen, g, day, look);
}
