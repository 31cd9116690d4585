-- ARGV: keep (ms), id, token, cost, used, lease (us), concurrency, then per
-- window: name, rate, burst. Returns 0, or {verdict, window from 1, wait in us}.
-- A wait of 0 means that no time can be named.
local keep, id, token = ARGV[1], ARGV[2], ARGV[3]
local cost, used, lease, cap = count(ARGV[4], 1), count(ARGV[5], 0), count(ARGV[6], 1), count(ARGV[7], 0)
if not (cost and used and lease and cap) then return { 6, 0, 0 } end
local fields, names, rates, bursts = { 'r:' .. id }, {}, {}, {}
for i = 8, #ARGV, 3 do
  local k = #names + 1
  names[k], rates[k], bursts[k] = ARGV[i], count(ARGV[i + 1], 0), count(ARGV[i + 2], 0)
  if not (rates[k] and bursts[k]) then return { 6, k, 0 } end
  fields[k + 1] = 'w:' .. names[k]
end
local vals = call('HMGET', H, unpack(fields))
record[id] = vals[1]
for k, name in ipairs(names) do window[name] = meter(vals[k + 1]) end

local all = expire(512)
forget()

if record[id] then
  local f = parse(record[id])
  finish(keep)
  if f[1] ~= 'L' then return { 2, 0, 0 } end
  if f[4] == token then return 0 end -- our own call, made again
  return { 1, 0, 0 }
end
for k = 1, #names do
  if cost > bursts[k] then
    finish(keep)
    return { 5, k, 0 }
  end
end
local wait, which = 0, 0
for k, name in ipairs(names) do
  local w = window[name]
  if w.rate ~= rates[k] then w.rate, w.changed = rates[k], true end
  local lack = cost - (bursts[k] - w.spent)
  if lack > 0 and wait >= 0 then
    local d = -1
    if rates[k] > 0 then
      lack = lack + (w.spent + cost) * 8.9e-16
      d = math.min(math.ceil(lack / rates[k] * 1000000) + 1, 86400000000)
    end
    if d < 0 or d > wait then wait, which = d, k end
  end
end
if wait ~= 0 then
  finish(keep)
  return { 3, which, math.max(wait, 0) }
end
if cap > 0 then
  local held
  if all then held = call('ZCARD', L) else held = call('ZCOUNT', L, '(' .. num(now), '+inf') end
  if held >= cap then
    finish(keep)
    return { 4, 0, 1000000 }
  end
end
for _, name in ipairs(names) do add(name, cost) end
put(id, table.concat({ 'L', ARGV[4], ARGV[5], token, unpack(names) }, ' '))
call('ZADD', L, num(now + lease), id)
finish(keep)
return 0
