// The globals of scripts, apart from `flo`.

interface Console {
  log(...values: unknown[]): void;
  info(...values: unknown[]): void;
  debug(...values: unknown[]): void;
  warn(...values: unknown[]): void;
  error(...values: unknown[]): void;
}
declare const console: Console;

type BodyInit = string | URLSearchParams | FormData | ArrayBuffer | ArrayBufferView;
interface RequestInit {
  method?: string;
  headers?: { [name: string]: string | number | FloSecret };
  /** For JSON use JSON.stringify. */
  body?: BodyInit | null;
  signal?: AbortSignal | null;
  timeout_ms?: number;
  redirect?: "follow" | "manual" | "error";
  /** false: the answer is not written to the log. */
  record?: boolean;
}
interface Response {
  readonly status: number;
  readonly ok: boolean;
  readonly url: string;
  /** Names in lower case. */
  readonly headers: { readonly [name: string]: string };
  text(): Promise<string>;
  json(): Promise<any>;
  arrayBuffer(): Promise<ArrayBuffer>;
}
/** Reaches the hosts of `egress` alone. */
declare function fetch(input: string | URL, init?: RequestInit): Promise<Response>;

declare class URL {
  constructor(url: string | URL, base?: string | URL);
  static canParse(url: string | URL, base?: string | URL): boolean;
  static parse(url: string | URL, base?: string | URL): URL | null;
  href: string;
  readonly origin: string;
  protocol: string;
  username: string;
  password: string;
  host: string;
  hostname: string;
  port: string;
  pathname: string;
  search: string;
  readonly searchParams: URLSearchParams;
  hash: string;
  toString(): string;
  toJSON(): string;
}
declare class URLSearchParams {
  constructor(init?: string | URLSearchParams | Iterable<readonly [string, string]> | { [name: string]: string });
  readonly size: number;
  append(name: string, value: string | FloSecret): void;
  delete(name: string, value?: string): void;
  get(name: string): string | null;
  getAll(name: string): string[];
  has(name: string, value?: string): boolean;
  set(name: string, value: string | FloSecret): void;
  sort(): void;
  forEach(callback: (value: string, name: string, parent: URLSearchParams) => void, thisArg?: unknown): void;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  entries(): IterableIterator<[string, string]>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
  toString(): string;
}

type BlobPart = string | ArrayBuffer | ArrayBufferView | Blob;
declare class Blob {
  constructor(parts?: Iterable<BlobPart>, options?: { type?: string });
  readonly size: number;
  readonly type: string;
  slice(start?: number, end?: number, type?: string): Blob;
  text(): Promise<string>;
  arrayBuffer(): Promise<ArrayBuffer>;
}
declare class File extends Blob {
  constructor(parts: Iterable<BlobPart>, name: string, options?: { type?: string; lastModified?: number });
  readonly name: string;
  readonly lastModified: number;
}
type FormDataEntryValue = string | File;
declare class FormData {
  append(name: string, value: string | FloSecret): void;
  append(name: string, value: Blob, filename?: string): void;
  delete(name: string): void;
  get(name: string): FormDataEntryValue | null;
  getAll(name: string): FormDataEntryValue[];
  has(name: string): boolean;
  set(name: string, value: string | FloSecret): void;
  set(name: string, value: Blob, filename?: string): void;
  forEach(callback: (value: FormDataEntryValue, name: string, parent: FormData) => void, thisArg?: unknown): void;
  keys(): IterableIterator<string>;
  values(): IterableIterator<FormDataEntryValue>;
  entries(): IterableIterator<[string, FormDataEntryValue]>;
  [Symbol.iterator](): IterableIterator<[string, FormDataEntryValue]>;
}

declare class TextEncoder {
  readonly encoding: "utf-8";
  encode(text?: string): Uint8Array<ArrayBuffer>;
}
declare class TextDecoder {
  constructor(label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean });
  readonly encoding: "utf-8";
  readonly fatal: boolean;
  readonly ignoreBOM: boolean;
  decode(bytes?: ArrayBuffer | ArrayBufferView, options?: { stream?: boolean }): string;
}
declare function structuredClone<T>(value: T, options?: { transfer?: ArrayBuffer[] }): T;
declare function atob(text: string): string;
declare function btoa(text: string): string;

interface Crypto {
  randomUUID(): `${string}-${string}-${string}-${string}-${string}`;
  getRandomValues<T extends ArrayBufferView>(array: T): T;
  readonly subtle: { digest(algorithm: "SHA-1" | "SHA-256" | "SHA-384" | "SHA-512" | { name: string }, bytes: ArrayBuffer | ArrayBufferView): Promise<ArrayBuffer> };
}
/** The same in every entry of a call. */
declare const crypto: Crypto;
declare const performance: { now(): number };

interface AbortEvent { readonly type: "abort"; readonly target: AbortSignal; readonly currentTarget: AbortSignal }
declare class AbortSignal {
  private constructor();
  static abort(reason?: unknown): AbortSignal;
  static timeout(ms: number): AbortSignal;
  static any(signals: Iterable<AbortSignal>): AbortSignal;
  readonly aborted: boolean;
  readonly reason: any;
  onabort: ((this: AbortSignal, event: AbortEvent) => unknown) | null;
  throwIfAborted(): void;
  addEventListener(type: "abort", listener: (this: AbortSignal, event: AbortEvent) => unknown, options?: { once?: boolean }): void;
  removeEventListener(type: "abort", listener: (this: AbortSignal, event: AbortEvent) => unknown): void;
}
declare class AbortController {
  readonly signal: AbortSignal;
  abort(reason?: unknown): void;
}

declare function setTimeout<A extends unknown[]>(callback: (...given: A) => unknown, ms?: number, ...given: A): number;
declare function setInterval<A extends unknown[]>(callback: (...given: A) => unknown, ms?: number, ...given: A): number;
declare function clearTimeout(timer?: number): void;
declare function clearInterval(timer?: number): void;
declare function queueMicrotask(callback: () => void): void;
