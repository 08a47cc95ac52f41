/**
 * Which runs a query can need. A view over the records of ten thousand runs would open ten thousand files; so the query's
 * syntax tree (DuckDB's `json_serialize_sql`) is read for conditions on run columns (`where queue = 'codel' and seed = 1`),
 * those are asked of the table of runs, and a view is made of the files of the runs that remain. The query itself runs
 * unchanged, so this may only ever leave out runs whose rows the query's own WHERE would drop:
 *
 * - only conjuncts of a SELECT's WHERE that name run columns and nothing else, without subqueries and volatile functions;
 * - only tables that are joined inner, or stand on the kept side of an outer join (dropping rows there drops results);
 * - a condition on one table also holds for those joined to it by `run_id` (USING, or ON a.run_id = b.run_id);
 * - a view that is named several times gets the runs of all; where one place has no usable condition, all runs.
 */

/** A node of the tree. Its shape is DuckDB's; only what is used here is looked at. */
interface Node { readonly [key: string]: unknown }

export interface Reference {
  /** Lower case. */
  readonly view: string;
  /** Conditions on run columns, as expression trees without qualifiers, all of which hold for every row that is needed; empty = none. */
  readonly conditions: readonly Node[];
}

const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null && !Array.isArray(value);
const text = (value: unknown): string => (typeof value === 'string' ? value : '');

/**
 * @param statement one statement of `json_serialize_sql`'s result
 * @param views names of views, lower case
 * @param runColumns columns all views share, lower case
 * @param volatile names of volatile functions
 * @returns every place where a view is read
 */
export function references(statement: unknown, views: ReadonlySet<string>, runColumns: ReadonlySet<string>, volatile: ReadonlySet<string>): Reference[] {
  const found: Reference[] = [];
  const hidden = new Set<string>(); // names that a WITH takes
  const collectNames = (value: unknown): void => {
    if (Array.isArray(value)) value.forEach(collectNames);
    else if (isNode(value)) {
      if (isNode(value['cte_map']) && Array.isArray(value['cte_map']['map'])) for (const cte of value['cte_map']['map']) if (isNode(cte)) hidden.add(text(cte['key']).toLowerCase());
      Object.values(value).forEach(collectNames);
    }
  };
  collectNames(statement);

  const visit = (value: unknown): void => {
    if (Array.isArray(value)) {
      value.forEach(visit);
    } else if (isNode(value)) {
      if (value['type'] === 'SELECT_NODE') select(value);
      // Any table not reached through a SELECT's FROM (DESCRIBE packets).
      else if (value['type'] === 'BASE_TABLE' && 'table_name' in value) note(value, []);
      for (const [key, inner] of Object.entries(value)) {
        if (value['type'] === 'SELECT_NODE' && key === 'from_table') visitInside(inner);
        else visit(inner);
      }
    }
  };
  const note = (table: Node, conditions: readonly Node[]): void => {
    const view = text(table['table_name']).toLowerCase();
    // A name that WITH takes somewhere may be either: then all runs, which is always right.
    if (views.has(view)) found.push({ view, conditions: hidden.has(view) ? [] : conditions });
  };
  /** What is inside a FROM besides the tables `select` has dealt with: subqueries, conditions. */
  const visitInside = (from: unknown): void => {
    if (!isNode(from)) return;
    if (from['type'] === 'BASE_TABLE') return;
    if (from['type'] === 'JOIN') {
      visitInside(from['left']);
      visitInside(from['right']);
      visit(from['condition']);
    } else {
      visit(from);
    }
  };
  const select = (node: Node): void => {
    const tables: { readonly node: Node; readonly alias: string; readonly prunable: boolean }[] = [];
    let others = 0; // subqueries, table functions, …
    const groups = new Map<string, string>(); // alias → representative, joined by run_id
    const root = (alias: string): string => { let at = alias; while (groups.get(at) !== undefined && groups.get(at) !== at) at = groups.get(at)!; return at; };
    const unite = (a: string, b: string): void => { groups.set(root(a), root(b)); };
    const aliasesOf = (from: unknown): string[] => !isNode(from) ? [] : from['type'] === 'JOIN' ? [...aliasesOf(from['left']), ...aliasesOf(from['right'])] : [aliasOf(from)];
    const walk = (from: unknown, prunable: boolean): void => {
      if (!isNode(from)) return;
      if (from['type'] === 'BASE_TABLE') {
        const alias = aliasOf(from);
        groups.set(alias, alias);
        // With its columns renamed, or sampled before WHERE, a table's conditions say something else.
        const asItIs = !(Array.isArray(from['column_name_alias']) && from['column_name_alias'].length > 0) && !isNode(from['sample']);
        tables.push({ node: from, alias, prunable: prunable && asItIs });
      } else if (from['type'] === 'JOIN') {
        const kind = text(from['join_type']);
        const plain = ['REGULAR', 'CROSS'].includes(text(from['ref_type']));
        const inner = plain && kind === 'INNER';
        walk(from['left'], prunable && (inner || (plain && (kind === 'LEFT' || kind === 'SEMI' || kind === 'ANTI'))));
        walk(from['right'], prunable && (inner || (plain && kind === 'RIGHT')));
        if (!inner) return;
        if (Array.isArray(from['using_columns']) && from['using_columns'].some((column) => text(column).toLowerCase() === 'run_id')) {
          const [left, right] = [aliasesOf(from['left']), aliasesOf(from['right'])];
          if (left.length === 1 && right.length === 1) unite(left[0]!, right[0]!);
          // With more tables USING takes the one column of that name that the left side shows.
          else if (left.length > 1 && right.length === 1 && new Set(left.map(root)).size === 1) unite(left[0]!, right[0]!);
        }
        for (const condition of conjuncts(from['condition'])) {
          const sides = condition['type'] === 'COMPARE_EQUAL' ? [condition['left'], condition['right']].map(columnOf) : [];
          if (sides.length === 2 && sides.every((side) => side !== null && side.length === 2 && side[1] === 'run_id')) unite(sides[0]![0]!, sides[1]![0]!);
        }
      } else if (from['type'] !== 'EMPTY') {
        others += 1;
      }
    };
    walk(node['from_table'], true);
    const where = conjuncts(node['where_clause']);
    // a.run_id = b.run_id in WHERE, of comma joins.
    for (const condition of where) {
      const sides = condition['type'] === 'COMPARE_EQUAL' ? [condition['left'], condition['right']].map(columnOf) : [];
      if (sides.length === 2 && sides.every((side) => side !== null && side.length === 2 && side[1] === 'run_id') && sides.every((side) => tables.some((table) => table.alias === side![0] && table.prunable))) unite(sides[0]![0]!, sides[1]![0]!);
    }
    const single = tables.length === 1 && others === 0;
    const conditions = where.flatMap((condition) => {
      const aliases = new Set<string>();
      const bare = unqualified(condition, (names) => {
        const column = names.at(-1)!.toLowerCase();
        if (!runColumns.has(column)) return null;
        if (names.length === 1 && single) aliases.add(tables[0]!.alias);
        else if (names.length === 2 && tables.some((table) => table.alias === names[0]!.toLowerCase())) aliases.add(names[0]!.toLowerCase());
        else return null;
        return [names.at(-1)!];
      }, volatile);
      return bare !== null && aliases.size === 1 ? [{ alias: [...aliases][0]!, bare }] : [];
    });
    for (const table of tables) {
      if (!table.prunable) {
        note(table.node, []);
        continue;
      }
      note(table.node, conditions.filter(({ alias }) => root(alias) === root(table.alias) && (alias === table.alias || tables.find((other) => other.alias === alias)?.prunable === true)).map(({ bare }) => bare));
    }
  };
  visit(statement);
  return found;
}

const aliasOf = (table: Node): string => (text(table['alias']) || text(table['table_name'])).toLowerCase();

/** The parts of `a AND b AND c`. */
function conjuncts(expression: unknown): Node[] {
  if (!isNode(expression)) return [];
  if (expression['type'] === 'CONJUNCTION_AND' && Array.isArray(expression['children'])) return expression['children'].flatMap(conjuncts);
  return [expression];
}

function columnOf(expression: unknown): string[] | null {
  return isNode(expression) && expression['type'] === 'COLUMN_REF' && Array.isArray(expression['column_names']) ? expression['column_names'].map((name) => text(name).toLowerCase()) : null;
}

/** The expression with every column renamed; null where a column is refused or it holds what cannot be asked elsewhere. */
function unqualified(value: unknown, rename: (names: readonly string[]) => string[] | null, volatile: ReadonlySet<string>): Node | null {
  let refused = false;
  const copy = (inner: unknown): unknown => {
    if (Array.isArray(inner)) return inner.map(copy);
    if (!isNode(inner)) return inner;
    const kind = text(inner['class']);
    if (kind === 'SUBQUERY' || kind === 'WINDOW' || kind === 'PARAMETER' || kind === 'STAR' || kind === 'LAMBDA' || kind === 'DEFAULT') refused = true;
    if (kind === 'FUNCTION' && volatile.has(text(inner['function_name']).toLowerCase())) refused = true;
    if (kind === 'COLUMN_REF') {
      const names = rename((inner['column_names'] as unknown[]).map(text));
      if (names === null) refused = true;
      return { ...inner, column_names: names ?? [] };
    }
    return Object.fromEntries(Object.entries(inner).map(([key, each]) => [key, copy(each)]));
  };
  const result = copy(value) as Node;
  return refused ? null : result;
}
