/**
 * One ssh connection: commands, files. Authentication by ssh-agent or key file only, the host key always verified
 * (known-hosts.ts). A command is words; they are quoted for the remote login shell, which sshd always uses.
 */

import { existsSync, readFileSync } from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import ssh2, { type ClientChannel, type ConnectConfig, type SFTPWrapper } from 'ssh2';
import { UserError } from '../../errors.js';
import { readKnownKeys, refusal } from './known-hosts.js';
import { formatTarget, type SshTarget } from './target.js';

export interface CommandResult { readonly code: number | null; readonly stdout: string; readonly stderr: string }

/** The connection is gone, or never came to be: the run there may go on. */
export class ConnectionLost extends UserError {
  constructor(message: string) {
    super(message, 3);
  }
}

/** One word of a POSIX shell. */
export const quote = (word: string): string => (/^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

interface Identity { readonly file: string; readonly key: Buffer }

/** The key files to try. @throws UserError for a key that was named and cannot be used */
function identities(target: SshTarget): Identity[] {
  const named = target.key !== undefined;
  const files = named ? [target.key!.replace(/^~(?=\/)/, os.homedir())] : ['id_ed25519', 'id_ecdsa', 'id_rsa'].map((name) => path.join(os.homedir(), '.ssh', name));
  return files.filter((file) => named || existsSync(file)).flatMap((file) => {
    let key: Buffer;
    try {
      key = readFileSync(file);
    } catch (error) {
      throw new UserError(`the key ${file} cannot be read: ${(error as Error).message}`, 3);
    }
    const parsed = ssh2.utils.parseKey(key);
    if (!(parsed instanceof Error)) return [{ file, key }];
    if (!named) return []; // an encrypted key in its usual place: ssh-agent may have it
    throw new UserError(/passphrase|encrypted/i.test(parsed.message) ? `the key ${file} has a passphrase: add it to ssh-agent (ssh-add ${file}) and leave the key out here` : `${file} is not a private key that can be used: ${parsed.message}`, 3);
  });
}

export class Connection {
  #closed = false;
  /** Set when it ended without being closed by us. */
  #lost: string | null = null;
  #sftp: Promise<SFTPWrapper> | undefined;

  private constructor(readonly target: SshTarget, private readonly client: ssh2.Client) {
    // One listener a transfer that is under way: sftp reads several pieces of a file at once.
    client.setMaxListeners(0);
    client.on('error', (error) => { this.#lost ??= error.message; });
    client.on('close', () => { if (!this.#closed) this.#lost ??= 'the connection was closed'; });
  }

  /** @throws UserError with what to do about it; ConnectionLost when the host cannot be reached */
  static async open(target: SshTarget): Promise<Connection> {
    const known = readKnownKeys(target.host, target.port);
    const keys = identities(target);
    const agent = target.key === undefined ? process.env['SSH_AUTH_SOCK'] : undefined;
    if (agent === undefined && keys.length === 0) throw new UserError(`${formatTarget(target)}: there is no key to log in with: start ssh-agent and add one (ssh-add), make one (ssh-keygen -t ed25519), or name it in testbed.config.yaml (key: FILE)`, 3);
    // The key types we know first, or the server would show another of its keys.
    const types = [...new Set(known.map(({ type }) => type))].flatMap((type) => (type === 'ssh-rsa' ? ['rsa-sha2-512', 'rsa-sha2-256'] : [type]));
    const others = ['ssh-ed25519', 'ecdsa-sha2-nistp256', 'ecdsa-sha2-nistp384', 'ecdsa-sha2-nistp521', 'rsa-sha2-512', 'rsa-sha2-256'];
    const refused: { reason: UserError | null } = { reason: null };
    const methods = [...(agent === undefined ? [] : [{ type: 'agent' as const, username: target.user, agent }]), ...keys.map(({ key }) => ({ type: 'publickey' as const, username: target.user, key }))];
    const config: ConnectConfig = {
      host: target.host, port: target.port, username: target.user, readyTimeout: 20_000, keepaliveInterval: 5000, keepaliveCountMax: 4,
      algorithms: { serverHostKey: [...types, ...others.filter((type) => !types.includes(type))] as NonNullable<NonNullable<ConnectConfig['algorithms']>['serverHostKey']> },
      hostVerifier: (blob: Buffer) => {
        refused.reason = refusal(known, blob, target.host, target.port);
        return refused.reason === null;
      },
      authHandler: methods,
    };
    const client = new ssh2.Client();
    await new Promise<void>((resolve, reject) => {
      client.once('ready', resolve);
      client.once('error', (error: Error & { level?: string }) => {
        if (refused.reason !== null) reject(refused.reason);
        else if (error.level === 'client-authentication') reject(new UserError(`${formatTarget(target)} accepts none of our keys (${[...(agent === undefined ? [] : ['those of ssh-agent']), ...keys.map(({ file }) => file)].join(', ')}): add the public key there (ssh-copy-id), or name another in testbed.config.yaml (key: FILE)`, 3));
        else reject(new ConnectionLost(`${formatTarget(target)} cannot be reached: ${error.message}`));
      });
      client.connect(config);
    });
    return new Connection(target, client);
  }

  get lost(): boolean {
    return this.#lost !== null;
  }

  #gone(): ConnectionLost {
    return new ConnectionLost(`the connection to ${formatTarget(this.target)} was lost: ${this.#lost ?? 'it was closed'}`);
  }

  /** Runs a command to its end. @param input given to it as standard input. @throws ConnectionLost */
  exec(words: readonly string[], input?: Buffer): Promise<CommandResult> {
    return new Promise((resolve, reject) => {
      if (this.#lost !== null) {
        reject(this.#gone());
        return;
      }
      const gone = (): void => { reject(this.#gone()); };
      this.client.once('close', gone);
      this.client.exec(words.map(quote).join(' '), (error: Error | undefined, channel: ClientChannel) => {
        if (error) {
          this.client.off('close', gone);
          reject(this.#lost === null ? new UserError(`${formatTarget(this.target)} does not run commands: ${error.message}`, 3) : this.#gone());
          return;
        }
        let [stdout, stderr] = ['', ''];
        let code: number | null = null;
        channel.setEncoding('utf8').on('data', (text: string) => { stdout += text; });
        channel.stderr.setEncoding('utf8').on('data', (text: string) => { stderr += text; });
        channel.on('exit', (value: number | null) => { code = value; });
        channel.on('close', () => {
          this.client.off('close', gone);
          if (code === null && this.#lost !== null) reject(this.#gone());
          else resolve({ code, stdout, stderr });
        });
        channel.end(input);
      });
    });
  }

  #files(): Promise<SFTPWrapper> {
    this.#sftp ??= new Promise((resolve, reject) => {
      this.client.sftp((error, sftp) => {
        if (error) reject(this.#lost === null ? new UserError(`${formatTarget(this.target)} has no sftp: ${error.message}`, 3) : this.#gone());
        else resolve(sftp);
      });
    });
    return this.#sftp;
  }

  /** One sftp request. @throws ConnectionLost, or what the server answered */
  async #file<T>(call: (sftp: SFTPWrapper, done: (error: Error | null | undefined, value?: T) => void) => void): Promise<T> {
    const sftp = await this.#files();
    return new Promise<T>((resolve, reject) => {
      if (this.#lost !== null) {
        reject(this.#gone());
        return;
      }
      const gone = (): void => { reject(this.#gone()); };
      this.client.once('close', gone);
      call(sftp, (error, value) => {
        this.client.off('close', gone);
        if (error) reject(this.#lost === null ? error : this.#gone());
        else resolve(value as T);
      });
    });
  }

  /** The home folder there, absolute. */
  home(): Promise<string> {
    return this.#file((sftp, done) => { sftp.realpath('.', done); });
  }

  write(file: string, data: string | Buffer, mode = 0o644): Promise<void> {
    return this.#file((sftp, done) => { sftp.writeFile(file, data, { mode }, done); });
  }

  /** Files of a folder with their sizes, bytes; null when there is no such folder. */
  async list(folder: string): Promise<{ readonly name: string; readonly size: number }[] | null> {
    try {
      const entries = await this.#file<{ filename: string; attrs: { size: number; isFile(): boolean } }[]>((sftp, done) => { sftp.readdir(folder, done as never); });
      return entries.filter(({ attrs }) => attrs.isFile()).map(({ filename, attrs }) => ({ name: filename, size: attrs.size }));
    } catch (error) {
      if (isMissing(error)) return null;
      throw error;
    }
  }

  /** Size of a file, bytes; null when it is not there. */
  async size(file: string): Promise<number | null> {
    try {
      return (await this.#file<{ size: number }>((sftp, done) => { sftp.stat(file, done as never); })).size;
    } catch (error) {
      if (isMissing(error)) return null;
      throw error;
    }
  }

  /** Passes on the bytes [from, to) of a file, in order. */
  async read(file: string, from: number, to: number, take: (chunk: Buffer) => void): Promise<void> {
    if (to <= from) return;
    const handle = await this.#file<Buffer>((sftp, done) => { sftp.open(file, 'r', done); });
    try {
      const size = 32 * 1024; // what every server grants a request
      const many = 16;
      for (let at = from; at < to; at += size * many) {
        const parts = Array.from({ length: Math.min(many, Math.ceil((to - at) / size)) }, (_, i) => at + i * size);
        const chunks = await Promise.all(parts.map(async (start) => {
          const whole = Buffer.alloc(Math.min(size, to - start));
          for (let got = 0; got < whole.length;) {
            const n = await this.#file<number>((sftp, done) => { sftp.read(handle, whole, got, whole.length - got, start + got, (error, bytes) => { done(error, bytes); }); });
            if (n === 0) throw new Error(`${file} became shorter`);
            got += n;
          }
          return whole;
        }));
        chunks.forEach(take);
      }
    } finally {
      if (this.#lost === null) await this.#file<void>((sftp, done) => { sftp.close(handle, done); }).catch(() => undefined);
    }
  }

  close(): void {
    this.#closed = true;
    this.client.end();
  }
}

/** SSH_FX_NO_SUCH_FILE. */
const isMissing = (error: unknown): boolean => (error as { code?: number }).code === 2;
