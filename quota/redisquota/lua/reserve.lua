-- ARGV: keep (ms), token, cost, used, lease (us), concurrency, names, "h",
-- "r:<id>", "w:<name>" of each window, then the rate of each, then the burst of
-- each. Returns 0, or {verdict, window from 1, wait in us}. A wait of 0 means
-- that no time can be named.
local keep, cost, used, lease, cap = ARGV[1], count(ARGV[3], 1), count(ARGV[4], 0), count(ARGV[5], 1), count(ARGV[6], 0)
local n, id = (#ARGV - 9) / 3, ARGV[9]
if not (cost and used and lease and cap) then return { 6, 0, 0 } end
for k = 1, n do
  if not (count(ARGV[9 + n + k], 0) and count(ARGV[9 + 2 * n + k], 0)) then return { 6, k, 0 } end
end

local v = call('HMGET', H, unpack(ARGV, 8, 9 + n))
local charged, due, fade, set = head(v[1])
if now >= due or now >= fade then
  tend(keep, charged, due, fade, set)
  v = call('HMGET', H, unpack(ARGV, 8, 9 + n))
  charged, due, fade, set = head(v[1])
end

if v[2] then
  if string.sub(v[2], 1, 1) ~= 'L' then return { 2, 0, 0 } end
  if string.sub(v[2], 18, 25) == ARGV[2] then return 0 end -- our own call, made again
  return { 1, 0, 0 }
end

local out, wait, which, changed = {}, 0, 0, false
for k = 1, n do
  local rate, burst = tonumber(ARGV[9 + n + k]), tonumber(ARGV[9 + 2 * n + k])
  local s, a, r = drain(v[2 + k])
  if r ~= rate then changed = true end
  out[2 * k - 1], out[2 * k] = ARGV[9 + k], { s, a, rate }
  if cost > burst then return { 5, k, 0 } end
  local lack = cost - (burst - s)
  if lack > 0 and wait >= 0 then
    local d = -1
    if rate > 0 then
      d = math.min(math.ceil((lack + (s + cost) * 8.9e-16) / rate * 1000000) + 1, 86400000000)
    end
    if d < 0 or d > wait then wait, which = d, k end
  end
end
local verdict = 0
if wait ~= 0 then
  verdict = 3
elseif cap > 0 then
  local from = '-inf'
  if due <= now then from = now + 1 end
  if call('ZCOUNT', Z, from, '4e15') >= cap then verdict, wait = 4, 1000000 end
end
if verdict ~= 0 and not changed then return { verdict, which, math.max(wait, 0) } end

local take = cost
if verdict ~= 0 then take = 0 end
for k = 1, n do
  local w = out[2 * k]
  out[2 * k] = pack('>ddd', w[1] + take, w[2], w[3])
end
if verdict == 0 then
  out[#out + 1] = id
  out[#out + 1] = 'L' .. pack('>dd', cost, used) .. ARGV[2] .. ARGV[7]
  local ends = now + lease
  call('ZADD', Z, ends, id)
  if ends < due then due, set = ends, 0 end
end
if now - set > 600000000 then
  out[#out + 1] = 'h'
  out[#out + 1] = pack('>dddd', charged, due, fade, now)
  call('HSET', H, unpack(out))
  call('PEXPIRE', H, keep)
  call('PEXPIRE', Z, keep)
elseif #out > 0 then
  call('HSET', H, unpack(out))
end
if verdict ~= 0 then return { verdict, which, math.max(wait, 0) } end
return 0
