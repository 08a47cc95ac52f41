import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { projectFile } from '../../kernel/project.js';
import { UserError } from '../errors.js';
import { Place } from '../testing/command.js';
import { dumbbellText } from '../testing/scenarios.js';
import { cellLabel, findFiles, loadCells, only } from './cells.js';

describe('the cells of scenarios', () => {
  it('of this project: every file can be run on both engines, and the grid is all of its 432', function () {
    this.timeout(120_000);
    const { cells, bad } = loadCells(findFiles([projectFile('scenarios')]), []);
    assert.deepEqual(bad, []);
    const grid = cells.filter(({ scenario }) => scenario.name === 'grid');
    assert.equal(grid.length, 6 * 4 * 3 * 3 * 2);
    assert.equal(new Set(grid.map(({ title }) => title)).size, grid.length);
    assert.ok(grid.some(({ title }) => title === 'grid (queue=fq_codel, rate=100mbit, rtt=200ms, flows=32, cc=cubic)'), grid[0]!.title);
    assert.equal(only(grid, ['queue=codel,rate=5mbit', 'queue=pie,rtt=10ms,cc=reno,flows=4']).length, 24 + 3);
    assert.equal(only(grid, ['flows=1']).length, 108, 'flows=16 is another setting');
  });

  it('say what varies, without how long it was measured', () => {
    assert.equal(cellLabel({ 'queue': 'codel', 'topology.links.BL.rate.forward': '5mbit', 'measure.warmup': '10s' }), 'queue=codel, rate=5mbit');
    assert.equal(cellLabel({ 'measure.duration': '10s' }), 'duration=10s');
  });

  it('come from files and folders, each file once, whatever is wrong with another', () => {
    const place = new Place();
    place.write('a/one.yaml', dumbbellText({ name: 'one' }));
    place.write('a/deep/two.yml', dumbbellText({ name: 'two', more: 'vary: { queue: [codel, pie] }' }));
    place.write('a/not.txt', 'x');
    place.write('a/broken.yaml', 'name: x');
    const files = findFiles([place.path('a'), place.path('a', 'one.yaml')]);
    assert.deepEqual(files.map((file) => path.relative(place.folder, file)), ['a/broken.yaml', 'a/deep/two.yml', 'a/one.yaml']);
    const { cells, bad } = loadCells(files, []);
    assert.deepEqual(cells.map(({ title }) => title), ['two (queue=codel)', 'two (queue=pie)', 'one']);
    assert.deepEqual(bad.map(({ file }) => path.basename(file)), ['broken.yaml']);
    assert.match(bad[0]!.message, /broken\.yaml:1: .*topology/);
    assert.throws(() => findFiles([place.path('none')]), (error) => error instanceof UserError && error.exitCode === 2);
    fs.mkdirSync(place.path('empty'));
    assert.throws(() => findFiles([place.path('empty')]), /no scenario/);
    place.remove();
  });
});
