-- ARGV: keep (ms), id, used, known, then per window: name, rate. With known = 1
-- an unknown id is left alone, else it is charged all of used. Returns 0.
local keep, id, used = ARGV[1], ARGV[2], count(ARGV[3], 0)
if not used then return { 6, 0, 0 } end
local fields = { 'r:' .. id, 'c' }
for i = 5, #ARGV, 2 do
  if not count(ARGV[i + 1], 0) then return { 6, 0, 0 } end
  fields[#fields + 1] = 'w:' .. ARGV[i]
end
local vals = call('HMGET', H, unpack(fields))
record[id] = vals[1]
charges = tonumber(vals[2] or '0')
for k = 3, #fields do window[string.sub(fields[k], 3)] = meter(vals[k]) end

expire(512)
forget()

local f = parse(record[id] or '-')
if f[1] == 'S' or (f[1] == '-' and ARGV[4] == '1') then
  finish(keep)
  return 0
end
if f[1] == '-' then
  for i = 5, #ARGV, 2 do
    add(ARGV[i], used)
    win(ARGV[i]).rate = tonumber(ARGV[i + 1])
  end
  charge(used)
else
  local taken = tonumber(f[2])
  for i = 5, #f do add(f[i], used - taken) end
  if f[1] == 'L' then
    call('ZREM', L, id)
    charge(used)
  else
    charge(used - taken)
  end
end
put(id, 'S')
call('ZADD', D, num(now + remember), id)
finish(keep)
return 0
