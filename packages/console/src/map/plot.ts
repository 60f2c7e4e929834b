// How are 100,000 points drawn, moved and clicked at?
//
// WebGL draws a disc for each point from two buffers, positions and colours; moving the view changes two numbers. The point under the pointer is
// found by a scan, which for 100,000 points takes less than a frame. Above the points lie the edges of a search's walk, lines that appear in
// the order in which the search took them.

const view = `
attribute vec2 position;
uniform vec2 center;
uniform vec2 scale;
vec4 placed() { return vec4((position - center) * scale, 0.0, 1.0); }`;

const pointShaders = [
  `${view}
attribute vec3 color;
uniform float size;
varying vec3 shade;
void main() {
  gl_Position = placed();
  gl_PointSize = size;
  shade = color;
}`,
  `
precision mediump float;
varying vec3 shade;
void main() {
  float distance = length(gl_PointCoord - 0.5);
  if (distance > 0.5) discard;
  float alpha = 0.85 * (1.0 - smoothstep(0.38, 0.5, distance));
  gl_FragColor = vec4(shade * alpha, alpha);
}`,
] as const;

/** `turn`: when an edge appears, from 0 to 1; those that have just appeared are stronger. */
const edgeShaders = [
  `${view}
attribute float turn;
varying float own;
void main() {
  gl_Position = placed();
  own = turn;
}`,
  `
precision mediump float;
uniform float now;
uniform vec3 ink;
varying float own;
void main() {
  if (own > now) discard;
  float alpha = now < 1.0 && now - own < 0.05 ? 1.0 : 0.45;
  gl_FragColor = vec4(ink * alpha, alpha);
}`,
] as const;

/** How long the edges of a walk take to appear. */
const walkMs = 3_000;

/** A point that is clicked may be so many pixels away. */
const pickPixels = 14;
/** Share of the points that the first view leaves out at each side. */
const outliers = 0.004;

type Attribute = { readonly name: string; readonly size: number; readonly isBytes?: boolean };

/** A program of WebGL with a buffer for each of its attributes. */
class Layer {
  readonly #gl: WebGLRenderingContext;
  readonly #program: WebGLProgram;
  readonly #attributes: readonly (Attribute & { readonly at: number; readonly buffer: WebGLBuffer })[];

  constructor(
    gl: WebGLRenderingContext,
    [vertex, fragment]: readonly [string, string],
    attributes: readonly Attribute[],
  ) {
    this.#gl = gl;
    const program = gl.createProgram();
    for (const [type, source] of [
      [gl.VERTEX_SHADER, vertex],
      [gl.FRAGMENT_SHADER, fragment],
    ] as const) {
      const shader = gl.createShader(type) as WebGLShader;
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost())
      throw new Error(`The map cannot be drawn here: ${gl.getProgramInfoLog(program)}`);
    this.#program = program;
    this.#attributes = attributes.map((attribute) => ({
      ...attribute,
      at: gl.getAttribLocation(program, attribute.name),
      buffer: gl.createBuffer(),
    }));
  }

  fill(name: string, values: Float32Array<ArrayBuffer> | Uint8Array): void {
    const gl = this.#gl;
    const attribute = this.#attributes.find((each) => each.name === name);
    gl.bindBuffer(gl.ARRAY_BUFFER, attribute?.buffer ?? null);
    gl.bufferData(gl.ARRAY_BUFFER, values, gl.DYNAMIC_DRAW);
  }

  /** @param uniforms of one, two or three numbers */
  draw(mode: number, count: number, uniforms: Readonly<Record<string, readonly number[]>>): void {
    const gl = this.#gl;
    gl.useProgram(this.#program);
    for (const { at, buffer, size, isBytes = false } of this.#attributes) {
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.enableVertexAttribArray(at);
      gl.vertexAttribPointer(at, size, isBytes ? gl.UNSIGNED_BYTE : gl.FLOAT, isBytes, 0, 0);
    }
    for (const [name, values] of Object.entries(uniforms)) {
      const at = gl.getUniformLocation(this.#program, name);
      if (values.length === 1) gl.uniform1f(at, values[0]);
      else if (values.length === 2) gl.uniform2f(at, values[0], values[1]);
      else gl.uniform3f(at, values[0], values[1], values[2]);
    }
    gl.drawArrays(mode, 0, count);
    for (const { at } of this.#attributes) gl.disableVertexAttribArray(at);
  }
}

export class Plot {
  readonly #canvas: HTMLCanvasElement;
  readonly #gl: WebGLRenderingContext;
  readonly #discs: Layer;
  readonly #lines: Layer;
  #points = new Float32Array(0);
  #colorCount = 0;
  /** Pairs of points. */
  #edges: readonly (readonly [from: number, to: number])[] = [];
  /** When the first edge appears; undefined: all are there. */
  #walkStartMs: number | undefined;
  #center: [number, number] = [0, 0];
  /** CSS pixels for one unit of the points. */
  #pixels = 1;
  #frame = 0;
  /** All points are shown until the user moves the view. */
  #follows = true;
  /** Called after each drawing. */
  onDrawn: () => void = () => undefined;

  /** @throws Error if the browser has no WebGL */
  constructor(canvas: HTMLCanvasElement) {
    this.#canvas = canvas;
    const gl = canvas.getContext("webgl", { antialias: true, premultipliedAlpha: true });
    if (gl === null) throw new Error("This browser has no WebGL, which the map is drawn with.");
    this.#gl = gl;
    this.#discs = new Layer(gl, pointShaders, [
      { name: "position", size: 2 },
      { name: "color", size: 3, isBytes: true },
    ]);
    this.#lines = new Layer(gl, edgeShaders, [
      { name: "position", size: 2 },
      { name: "turn", size: 1 },
    ]);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  /** @param points x and y in turn; kept, not copied */
  setPoints(points: Float32Array<ArrayBuffer>): void {
    this.#points = points;
    this.#discs.fill("position", points);
    this.#placeEdges();
    if (this.#follows) this.fit();
    else this.draw();
  }

  /** From now on the view shows all points, until it is moved. */
  follow(): void {
    this.#follows = true;
  }

  /** @param colors three bytes for each point */
  setColors(colors: Uint8Array): void {
    this.#discs.fill("color", colors);
    this.#colorCount = colors.length / 3;
    this.draw();
  }

  /**
   * Draws lines between points.
   * @param edges pairs of points, in the order in which they appear
   * @param isMoving whether they appear one after the other; otherwise all are there at once
   */
  setEdges(edges: readonly (readonly [from: number, to: number])[], isMoving: boolean): void {
    this.#edges = edges;
    this.#walkStartMs = isMoving ? performance.now() : undefined;
    this.#placeEdges();
    this.draw();
  }

  #placeEdges(): void {
    const points = this.#points;
    const place = (i: number) => [points[2 * i], points[2 * i + 1]];
    const { length } = this.#edges;
    this.#lines.fill(
      "position",
      Float32Array.from(this.#edges.flatMap(([from, to]) => [...place(from), ...place(to)])),
    );
    this.#lines.fill(
      "turn",
      Float32Array.from({ length: 2 * length }, (_, i) => (i >> 1) / length),
    );
  }

  /** Shows all points but the outermost. */
  fit(): void {
    const extent = (offset: 0 | 1): [number, number] => {
      const sorted = Float32Array.from(
        { length: this.#points.length / 2 },
        (_, i) => this.#points[2 * i + offset],
      ).sort();
      const cut = Math.floor(outliers * sorted.length);
      return [sorted[cut] ?? 0, sorted[sorted.length - 1 - cut] ?? 1];
    };
    const [left, right] = extent(0);
    const [low, high] = extent(1);
    const { clientWidth, clientHeight } = this.#canvas;
    this.#center = [(left + right) / 2, (low + high) / 2];
    const size = (least: number, most: number) => (most > least ? most - least : 1);
    this.#pixels = 0.9 * Math.min(clientWidth / size(left, right), clientHeight / size(low, high));
    this.draw();
  }

  /** Moves the view by CSS pixels. */
  move(x: number, y: number): void {
    this.#follows = false;
    this.#center = [this.#center[0] - x / this.#pixels, this.#center[1] + y / this.#pixels];
    this.draw();
  }

  /** @param x, y what stays in place, in CSS pixels of the canvas; default: the centre */
  zoom(factor: number, x = this.#canvas.clientWidth / 2, y = this.#canvas.clientHeight / 2): void {
    this.#follows = false;
    const before = this.#unproject(x, y);
    this.#pixels *= factor;
    const after = this.#unproject(x, y);
    this.#center = [this.#center[0] + before[0] - after[0], this.#center[1] + before[1] - after[1]];
    this.draw();
  }

  #unproject(x: number, y: number): [number, number] {
    const { clientWidth, clientHeight } = this.#canvas;
    return [
      this.#center[0] + (x - clientWidth / 2) / this.#pixels,
      this.#center[1] - (y - clientHeight / 2) / this.#pixels,
    ];
  }

  /** Where a point is, in CSS pixels of the canvas. */
  placeOf(i: number): [number, number] {
    const { clientWidth, clientHeight } = this.#canvas;
    return [
      clientWidth / 2 + (this.#points[2 * i] - this.#center[0]) * this.#pixels,
      clientHeight / 2 - (this.#points[2 * i + 1] - this.#center[1]) * this.#pixels,
    ];
  }

  /** The point nearest to a place, in CSS pixels of the canvas; undefined if there is none near it. */
  pick(x: number, y: number): number | undefined {
    const [wantedX, wantedY] = this.#unproject(x, y);
    let least = (pickPixels / this.#pixels) ** 2;
    let found: number | undefined;
    const points = this.#points;
    for (let i = 0; i < points.length; i += 2) {
      const distance = (points[i] - wantedX) ** 2 + (points[i + 1] - wantedY) ** 2;
      if (distance > least) continue;
      least = distance;
      found = i / 2;
    }
    return found;
  }

  /** Draws with the next frame. */
  draw(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => {
      this.#drawNow();
      this.onDrawn();
    });
  }

  #drawNow(): void {
    const gl = this.#gl;
    const canvas = this.#canvas;
    const ratio = devicePixelRatio;
    const [width, height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
    }
    gl.viewport(0, 0, width, height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    const count = Math.min(this.#points.length / 2, this.#colorCount);
    if (count === 0) return;
    const placing = {
      center: this.#center,
      scale: [(2 * this.#pixels) / canvas.clientWidth, (2 * this.#pixels) / canvas.clientHeight],
    };
    // Fewer points are larger.
    const size = ratio * Math.max(3, Math.min(9, 220 / Math.sqrt(count)));
    this.#discs.draw(gl.POINTS, count, { ...placing, size: [size] });
    if (this.#edges.length > 0) this.#drawEdges(placing);
  }

  #drawEdges(placing: Readonly<Record<string, readonly number[]>>): void {
    const start = this.#walkStartMs;
    const now = start === undefined ? 1 : Math.min(1, (performance.now() - start) / walkMs);
    // The colour of text, in light and in dark.
    const ink = getComputedStyle(this.#canvas).color.match(/[\d.]+/g) ?? [];
    this.#lines.draw(this.#gl.LINES, 2 * this.#edges.length, {
      ...placing,
      now: [now],
      ink: [0, 1, 2].map((i) => Number(ink[i] ?? 0) / 255),
    });
    if (now < 1) this.draw();
    else this.#walkStartMs = undefined;
  }

  close(): void {
    cancelAnimationFrame(this.#frame);
    this.#gl.getExtension("WEBGL_lose_context")?.loseContext();
  }
}
